/* The C face of rabit: what Python, the JVM and others call. As rabit.h, which says what the
 * functions mean, what they wait for, and which parameters there are.
 *
 * Functions that return int, unless they say otherwise: 0, or -1 after one line on standard error
 * (an unknown type or operator); nothing was communicated then. What cannot go on ends the job, as
 * in rabit.h. An operation may be told where it is called from, or marked as bootstrap, with
 * rejoin_call_site and rejoin_bootstrap of rejoin.h just before it. */
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

/* enum_dtype: 0 char, 1 unsigned char, 2 int, 3 unsigned, 4 long, 5 unsigned long, 6 float, 7
 * double, 8 long long, 9 unsigned long long enum_op:    0 maximum, 1 minimum, 2 sum, 3 bitwise or
 * (integers only) */

/* Reads the parameters from argv (argc may be 0) and the environment; waits for the other ranks. */
RABIT_DLL bool RabitInit(int argc, char* argv[]);
/* Leaves the job; waits for the other ranks. */
RABIT_DLL bool RabitFinalize(void);

RABIT_DLL int RabitGetRank(void);
RABIT_DLL int RabitGetWorldSize(void);
/* The rank that is before this one when they stand in a ring. */
RABIT_DLL int RabitGetRingPrevRank(void);
/* 1: there are other ranks; 0: there are none. */
RABIT_DLL int RabitIsDistributed(void);
RABIT_DLL int RabitVersionNumber(void);

/* Prints to standard output at once; text ends with 0. */
RABIT_DLL int RabitTrackerPrint(const char* text);
/* The machine's name into out_name, at most max_len bytes, 0 at its end included; *out_len: its
 * length without that. */
RABIT_DLL int RabitGetProcessorName(char* out_name, rbt_ulong* out_len, rbt_ulong max_len);

/* Gives `size` bytes of rank `root` to all. */
RABIT_DLL int RabitBroadcast(void* data, rbt_ulong size, int root);
/* Every rank has the elements [begin, begin + size_node_slice) of total_size, and gets all. */
RABIT_DLL int RabitAllgather(void* data, size_t total_size, size_t begin, size_t size_node_slice,
                             size_t size_prev_slice, int enum_dtype);
/* Reduces `count` elements in place. prepare may be NULL; else it fills `data`, and is not called
 * when the result is already known. */
RABIT_DLL int RabitAllreduce(void* data, size_t count, int enum_dtype, int enum_op,
                             void (*prepare)(void* argument), void* argument);

/* Returns the version of the checkpoint to go on from, 0 if there is none; then the pointers are
 * not touched. The models belong to the library and are valid until the second checkpoint from
 * here. out_local_model and out_local_len may be NULL. */
RABIT_DLL int RabitLoadCheckPoint(char** out_global_model, rbt_ulong* out_global_len,
                                  char** out_local_model, rbt_ulong* out_local_len);
/* Gives both models (bytes); local_model may be NULL with 0. Waits for the other ranks. */
RABIT_DLL int RabitCheckPoint(const char* global_model, rbt_ulong global_len,
                              const char* local_model, rbt_ulong local_len);
/* The same of a global model alone, which serialize(argument, stream) writes piece by piece with
 * RabitStreamWrite: only when it is worth it, and then within this call. Otherwise a checkpoint is
 * only a number, and a restarted rank replays from the newest one that was written. serialize must
 * write the same bytes at every rank, and must not call other functions of this file. */
RABIT_DLL int RabitLazyCheckPoint(void (*serialize)(void* argument, void* stream), void* argument);
RABIT_DLL void RabitStreamWrite(void* stream, const char* data, rbt_ulong size);

/* 0. A program that calls it cannot be linked without this library. */
RABIT_DLL int RabitLinkTag(void);

#endif /* RABIT_C_API_H_ */
