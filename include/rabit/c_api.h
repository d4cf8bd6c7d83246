/* The C interface of rabit, for Python, the JVM and other languages. rabit.h describes the
 * functions, what they wait for, and the parameters.
 *
 * Functions that return int return 0 unless they say otherwise, or -1 after one line on standard
 * error (an unknown type or operator); nothing was communicated then. Other errors end the job, as
 * in rabit.h. rejoin_call_site and rejoin_bootstrap of rejoin.h, called before an operation, set
 * its call site and mark it as bootstrap. */
#ifndef RABIT_C_API_H_
#define RABIT_C_API_H_

#ifdef __cplusplus
#include <cstddef>
#include <cstdio>
#define RABIT_EXTERN_C extern "C"
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#define RABIT_EXTERN_C
#endif

#define RABIT_DLL RABIT_EXTERN_C __attribute__((visibility("default")))

typedef unsigned long rbt_ulong;

/* enum_dtype: 0 char, 1 unsigned char, 2 int, 3 unsigned, 4 long, 5 unsigned long, 6 float,
 *             7 double, 8 long long, 9 unsigned long long
 * enum_op:    0 maximum, 1 minimum, 2 sum, 3 bitwise or (integers only) */

/* Reads the parameters from argv (argc may be 0) and the environment; waits for the other ranks. */
RABIT_DLL bool RabitInit(int argc, char* argv[]);
/* Leaves the job; waits for the other ranks. */
RABIT_DLL bool RabitFinalize(void);

RABIT_DLL int RabitGetRank(void);
RABIT_DLL int RabitGetWorldSize(void);
/* Returns the rank before this one if the ranks form a ring. */
RABIT_DLL int RabitGetRingPrevRank(void);
/* Returns 1 if there are other ranks, else 0. */
RABIT_DLL int RabitIsDistributed(void);
RABIT_DLL int RabitVersionNumber(void);

/* Prints to standard output at once; text ends with 0. */
RABIT_DLL int RabitTrackerPrint(const char* text);
/* Writes the machine's name into out_name, at most max_len bytes with the 0 at its end. *out_len
 * becomes its length without the 0. */
RABIT_DLL int RabitGetProcessorName(char* out_name, rbt_ulong* out_len, rbt_ulong max_len);

/* Broadcasts `size` bytes of rank `root` to all ranks. */
RABIT_DLL int RabitBroadcast(void* data, rbt_ulong size, int root);
/* Gathers total_size elements at all ranks. This rank has [begin, begin + size_node_slice). */
RABIT_DLL int RabitAllgather(void* data, size_t total_size, size_t begin, size_t size_node_slice,
                             size_t size_prev_slice, int enum_dtype);
/* Reduces `count` elements in place. prepare may be NULL. Otherwise it fills `data` before the
 * operation, and is not called if the result is recorded. */
RABIT_DLL int RabitAllreduce(void* data, size_t count, int enum_dtype, int enum_op,
                             void (*prepare)(void* argument), void* argument);

/* Returns the version of the checkpoint to go on from, 0 if there is none; then the pointers are
 * not touched. The models belong to the library and are valid until the second checkpoint from
 * here. out_local_model and out_local_len may be NULL. */
RABIT_DLL int RabitLoadCheckPoint(char** out_global_model, rbt_ulong* out_global_len,
                                  char** out_local_model, rbt_ulong* out_local_len);
/* Makes a checkpoint of both models, in bytes. local_model may be NULL with 0 bytes. Waits for the
 * other ranks. */
RABIT_DLL int RabitCheckPoint(const char* global_model, rbt_ulong global_len,
                              const char* local_model, rbt_ulong local_len);
/* Makes a checkpoint of a global model, which serialize(argument, stream) writes piece by piece
 * with RabitStreamWrite. serialize is called only if that is worth its cost, and then within this
 * call. A restarted rank goes on at the newest version that was written and replays what followed.
 * serialize must write the same bytes at every rank, and must not call other functions of this
 * file. */
RABIT_DLL int RabitLazyCheckPoint(void (*serialize)(void* argument, void* stream), void* argument);
RABIT_DLL void RabitStreamWrite(void* stream, const char* data, rbt_ulong size);

/* Returns 0. A program that calls it cannot be linked without this library. */
RABIT_DLL int RabitLinkTag(void);

#endif /* RABIT_C_API_H_ */
