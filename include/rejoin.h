/* Rejoin's own interface, for programs that can be changed: checkpoints. If images of all ranks can
 * be made, these protect the job (a job of images), and checkpoints are written only to
 * --checkpoint-dir. Otherwise (a job of versions) a rank that is started again goes on at the
 * newest checkpoint instead of repeating its whole past.
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
 * Link with Rejoin's libmpi.so.40 (ftmpicc does). MPI_Pcontrol does the same in a program that also
 * runs under another MPI; see the end of this file. All functions must be called by the main thread
 * between MPI_Init and MPI_Finalize. docs/checkpoints.md has the rules and complete examples. */
#ifndef REJOIN_H
#define REJOIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Functions that can fail return 0 or a version on success, and otherwise one of these errors;
 * rejoin_error() is its text. A call that fails changes nothing. */
enum {
  REJOIN_ERR_ARGUMENT =
      -1,                /* a null pointer with a size, or not between MPI_Init and MPI_Finalize */
  REJOIN_ERR_STATE = -2, /* not possible here: a second load, a load after a checkpoint */
  REJOIN_ERR_MODEL = -3, /* another rank is in another operation: end the job (MPI_Abort) */
  REJOIN_ERR_MEMORY =
      -4,             /* the bootstrap phase left more than --bootstrap-limit (jobs of versions) */
  REJOIN_ERR_KEY = -5 /* a bootstrap key that was used before */
};

/* Returns the text of the newest error in this process; "" if there was none. Valid until the next
 * call. */
const char* rejoin_error(void);

/* ---------------------------------------------------------------------------------- checkpoints */

/* Returns the version to go on from; 0 at the beginning (then the pointers are NULL and the sizes
 * 0). A restarted rank in a job of versions gets the newest version that all ranks have made. In
 * any other job every incarnation gets the same version: the one with which --resume has started
 * the job, or 0. *global, *local: the models, in shared memory, 64-byte aligned and read-only,
 * valid until the second checkpoint from here; *global_bytes, *local_bytes: their sizes. Any of the
 * four pointers may be NULL. Must be called once, before the first checkpoint. It is not collective
 * and never waits. */
int rejoin_load(const void** global, size_t* global_bytes, const void** local, size_t* local_bytes);

/* Makes a checkpoint. The models must contain all that the program needs of its past. Collective
 * over MPI_COMM_WORLD: every rank must call it at the same place. global: the same bytes at every
 * rank, stored once on each host; local: this rank's own. Either may be NULL with 0 bytes. Waits
 * until every rank has called it. In a job of versions it copies both models before it returns, and
 * truncates the journal: memory that only earlier versions need is reused. In a job of images it
 * copies them only if this version is written to --checkpoint-dir. Global models that differ by
 * rank end the job. Returns the new version. */
int rejoin_checkpoint(const void* global, size_t global_bytes, const void* local,
                      size_t local_bytes);

/* The destination of a model that is written piece by piece. */
typedef struct rejoin_stream rejoin_stream;
void rejoin_write(rejoin_stream* to, const void* data, size_t bytes);

/* Makes a checkpoint of a global model that is written only if it is worth the cost: every few
 * versions, or when the journal has grown. serialize(model, to) is called within this call or not
 * at all. In a job of versions a restarted rank goes on at the newest version that was written and
 * replays what followed. In a job of images without --checkpoint-dir no version after the second is
 * written. `serialize` must write the same bytes at every rank and must not call MPI. Otherwise as
 * rejoin_checkpoint. */
int rejoin_checkpoint_lazy(void (*serialize)(void* model, rejoin_stream* to), void* model);

/* Returns the version: that which rejoin_load returned, plus one for each checkpoint since. */
int rejoin_version(void);

/* --------------------------------------------------------------------------- the next operation */

/* The following functions set properties of the next MPI collective that this rank calls. They do
 * not communicate. The last call counts. */

/* Marks the operation as part of the bootstrap phase, the set-up between rejoin_load and the first
 * iteration. Every incarnation in a job of versions runs that phase. A restarted rank, when the
 * others are long past it, gets the recorded result of the operation. The mark has no effect in
 * other jobs. key: a unique name for one operation. NULL: the operation is identified by the call
 * site and by how often an operation was marked there. Only Barrier, Bcast, Allreduce, Allgather
 * and the creation of communicators can be marked. A program that marks an operation declares that
 * operations without a mark are not set-up. "": marks nothing, and makes that declaration for a
 * program whose set-up has no operations. Returns 0, or an error if this process has used the key
 * for another operation; the marked operation then fails, too. */
int rejoin_bootstrap(const char* key);

/* Sets the call site of the operation, instead of the place where the MPI function is called. For
 * libraries that wrap MPI. The texts must stay valid until the process ends. */
void rejoin_call_site(const char* file, int line, const char* function);

/* Sets a function that fills the buffer of the operation, which must be MPI_Allreduce.
 * prepare(argument) is called only if the operation is executed, not if the journal has its
 * result. */
void rejoin_prepare(void (*prepare)(void* argument), void* argument);

/* --------------------------------------------------------------------------------- the position */

/* Returns 1 in a restarted process as long as the journal still answers its operations, else 0. */
int rejoin_replaying(void);

/* Returns how often this rank was started again. */
int rejoin_incarnation(void);

/* ------------------------------------------------------------------------- messages to the user */

/* Prints one line at once: ftrun prints it on its standard error, after this rank's number. It is
 * no part of the rank's output, so a line of a former incarnation is printed again. Without ftrun,
 * before MPI_Init and after MPI_Finalize the line goes to this process's standard error. A text of
 * more than 4,000 bytes is truncated. */
void rejoin_notice(const char* text);

/* --------------------------------------------------------------------------------- MPI_Pcontrol */

/* The same for a program that must run under any MPI. Other MPIs ignore these levels and do not
 * change `version`. A program may copy the numbers instead of including this file.
 *
 *   int version = 0;
 *   MPI_Pcontrol(REJOIN_PCONTROL_LOAD, &version, model, sizeof model);
 *   MPI_Pcontrol(REJOIN_PCONTROL_CHECKPOINT, model, sizeof model);
 *   MPI_Pcontrol(REJOIN_PCONTROL_BOOTSTRAP, key);
 *
 * The load copies the global model, if there is one; its size must be the same. A checkpoint with
 * NULL, (size_t)0 is for a program that stores its state by itself. key: const char*, as for
 * rejoin_bootstrap. An error ends the job with its text. */
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
