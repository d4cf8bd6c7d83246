/* Rejoin's own interface, for programs that can be changed: checkpoints. Where images of all ranks
 * are possible these protect the job, and a checkpoint is what --checkpoint-dir writes; elsewhere a
 * rank that is started again goes on at the newest checkpoint instead of running its whole past
 * again.
 *
 *     double model[N];
 *     MPI_Init(&argc, &argv);
 *     const void* saved; size_t bytes;
 *     int version = rejoin_load(&saved, &bytes, NULL, NULL);
 *     if (version == 0) initialise(model); else memcpy(model, saved, bytes);
 *     for (int i = version; i < ITERATIONS; ++i) {
 *       iterate(model);                                    // any MPI collectives
 *       rejoin_checkpoint(model, sizeof model, NULL, 0);   // now the version is i + 1
 *     }
 *     MPI_Finalize();
 *
 * Link with Rejoin's libmpi.so.40 (ftmpicc does). MPI_Pcontrol does the same in a
 * program that also runs under another MPI, see the end of this file. All functions are called by
 * the main thread between MPI_Init and MPI_Finalize. docs/checkpoints.md has the rules and complete
 * examples. */
#ifndef REJOIN_H
#define REJOIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* What the functions return that can fail: 0 or a version on success, else one of these; the text
 * is rejoin_error(). Nothing has been changed then. */
enum {
  REJOIN_ERR_ARGUMENT =
      -1,                /* a null pointer with a size, or not between MPI_Init and MPI_Finalize */
  REJOIN_ERR_STATE = -2, /* not possible here: a second load, a load after a checkpoint */
  REJOIN_ERR_MODEL = -3, /* another rank is elsewhere: no checkpoint, end the job (MPI_Abort) */
  REJOIN_ERR_MEMORY =
      -4,             /* the bootstrap phase left more than --bootstrap-limit (jobs of versions) */
  REJOIN_ERR_KEY = -5 /* a bootstrap key that was used before */
};

/* Text of the newest failure of this process; "" if there was none. Valid until the next call. */
const char* rejoin_error(void);

/* ---------------------------------------------------------------------------------- checkpoints */

/* Returns the version to go on from; 0 at the beginning (then the pointers are NULL and the sizes
 * 0). A restarted rank in a job of versions, of which no images are made, is given the newest
 * version that all ranks have made. Each process of a rank in any other job is given the same: what
 * --resume has begun with, or 0. *global, *local: the models, in shared memory, 64-byte aligned;
 * read only; valid until the second checkpoint from here. Any of the four pointers may be NULL.
 * Call it once, before the first checkpoint; not collective, never waits. */
int rejoin_load(const void** global, size_t* global_bytes, const void** local, size_t* local_bytes);

/* "All that happened before this is in my models." Collective over MPI_COMM_WORLD: every rank calls
 * it at the same place. global: the same bytes at every rank, kept once a host; local: this rank's
 * own. Either may be NULL with 0 bytes. Waits until every rank has called it. In a job of versions
 * it copies both before it returns, and the journal is truncated: memory that only earlier versions
 * need is used again. Where images protect the job it copies them only if they are to be written to
 * --checkpoint-dir. Global models that differ by rank end the job. Returns the new version. */
int rejoin_checkpoint(const void* global, size_t global_bytes, const void* local,
                      size_t local_bytes);

/* Where a model is written to, piece by piece. */
typedef struct rejoin_stream rejoin_stream;
void rejoin_write(rejoin_stream* to, const void* data, size_t bytes);

/* The same, but `serialize(model, to)` is called only when it is worth it: every few versions, or
 * when the journal has grown, and always within this call. Otherwise a checkpoint is a number; in
 * a job of versions a restarted rank replays from the newest version that was written. Where images
 * protect the job, without --checkpoint-dir, nothing is written behind the second. `serialize` must
 * write the same bytes at every rank and must not call MPI. */
int rejoin_checkpoint_lazy(void (*serialize)(void* model, rejoin_stream* to), void* model);

/* Versions of this execution: what rejoin_load returned, plus one for each checkpoint since. */
int rejoin_version(void);

/* ------------------------------------------------------------------------- about the next
 * operation */

/* The following say something about the next MPI collective that this rank calls; they communicate
 * nothing. What was said last counts. */

/* Marks it as part of the bootstrap phase, the set-up between rejoin_load and the first iteration.
 * Every incarnation in a job of versions runs that phase; a restarted one, when the others are long
 * past it, is given the operation's result again. The mark has no effect in any other job. key: a
 * unique name for one operation. NULL: the call site, and how often an operation was marked there.
 * Barrier, Bcast, Allreduce, Allgather and making communicators only. A program that marks anything
 * declares that what it has not marked is no set-up. "": nothing is marked, but the program makes
 * that declaration, because its set-up has no operations. Returns 0, or an error if this process
 * has used the key for another operation; that operation fails then, too. */
int rejoin_bootstrap(const char* key);

/* It is called from here, not from where the MPI function is called; for libraries that wrap MPI.
 * The texts must stay valid. */
void rejoin_call_site(const char* file, int line, const char* function);

/* prepare(argument) fills its buffer, and is called only if the operation really runs: not when its
 * result is in the journal. MPI_Allreduce only. */
void rejoin_prepare(void (*prepare)(void* argument), void* argument);

/* -------------------------------------------------------------------------------------- where am I
 */

/* Returns 1 in a restarted process as long as the journal still answers its operations, else 0. */
int rejoin_replaying(void);

/* How often this rank was started again. */
int rejoin_incarnation(void);

/* -------------------------------------------------------------------------------- what users read
 */

/* Shows one line at once: ftrun prints it on its standard error, with this rank's number before it.
 * It is no part of the rank's output, so what a former incarnation has said is said again. Without
 * ftrun, before MPI_Init and after MPI_Finalize it goes to this process's standard error. What is
 * longer than 4,000 bytes is cut. */
void rejoin_notice(const char* text);

/* ------------------------------------------------------------------------------------ MPI_Pcontrol
 */

/* The same for a program that must run under any MPI: others ignore these levels, so `version`
 * stays what it was. Copy the numbers if you would rather not have this file.
 *
 *   int version = 0;
 *   MPI_Pcontrol(REJOIN_PCONTROL_LOAD, &version, model, sizeof model);
 *   MPI_Pcontrol(REJOIN_PCONTROL_CHECKPOINT, model, sizeof model);
 *   MPI_Pcontrol(REJOIN_PCONTROL_BOOTSTRAP, key);
 *
 * The load copies the global model, if there is one; its size must be the same. A checkpoint with
 * NULL, (size_t)0: the program keeps its state by itself. key: const char*, as for
 * rejoin_bootstrap. A failure ends the job with its text. */
enum {
  REJOIN_PCONTROL_LOAD = 0x524a01,
  REJOIN_PCONTROL_CHECKPOINT = 0x524a02,
  REJOIN_PCONTROL_BOOTSTRAP = 0x524a03
};

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* REJOIN_H */
