// Allreduce, Broadcast and checkpoints for iterative programs that survive deaths of ranks: the
// interface of rabit 1.0, on Rejoin. Programs written for rabit compile unchanged; they link
// librabit.so.
//
//     int main(int argc, char* argv[]) {
//       rabit::Init(argc, argv);
//       Model model;                                     // a rabit::Serializable
//       int version = rabit::LoadCheckPoint(&model);
//       if (version == 0) model.init();
//       for (int i = version; i < kIterations; ++i) {
//         std::vector<float> gradient = model.gradient(my_rows);
//         rabit::Allreduce<rabit::op::Sum>(gradient.data(), gradient.size());
//         model.step(gradient);
//         rabit::CheckPoint(&model);
//       }
//       rabit::Finalize();
//     }
//
// Started by itself it is a world of one; `ftrun -n 8 ./program` runs eight ranks. A rank that dies
// is started again: it goes on from a snapshot of its process, from main, or at the newest
// checkpoint (docs/checkpoints.md), is given the results that it lacks, and the others keep all
// their work.
//
// All functions are for the main thread. Without Init, and after Finalize, the process is a world
// of one rank. What cannot go on (a wrong root, a model that does not load) ends the job with one
// line on standard error and exit code 1.
//
// Parameters are arguments of the form name=value, or environment variables of that name; an
// argument wins. Other arguments are the program's, and unknown names are no error.
//
//   mock=RANK,VERSION,SEQ,NDEATH  kill -9 rank RANK, in its incarnation NDEATH (from 0), where
//                                 VERSION checkpoints were made and SEQ operations since (at its
//                                 first call if it goes on from a snapshot behind that); repeatable
//   rabit_debug=1                 print every operation to standard error
//   rabit_reduce_buffer=256MB     bytes, or a number with K, M or G; at least 8
//   rabit_global_replica=5        at least 1
//   rabit_local_replica=2         at least 1
//   rabit_bootstrap_cache=0       0 or 1
//   rabit_reduce_ring_mincount=N  elements
//   rabit_timeout=0               0 or 1
//   rabit_timeout_sec=1800        seconds
//   rabit_task_id=ID              under ftrun the rank decides
//
// The parameters from rabit_reduce_buffer down are checked and have no effect: results are built in
// place and kept as long as a rank may need them, what a program does before LoadCheckPoint is
// always answered from the journal, the algorithm of an operation is chosen by size, and ftrun has
// a --timeout.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "rabit/internal/engine.h"
#include "rabit/internal/io.h"
#include "rabit/internal/utils.h"
#include "rabit/serializable.h"

namespace rabit {

// What Allreduce computes from the elements of all ranks.
namespace op {
struct Max;
struct Min;
struct Sum;
struct BitOR;  // integers only
}  // namespace op

// Reads the parameters and makes this process a rank. Waits for the other ranks. False, with a line
// on standard error: it was finalized before. A parameter of wrong form ends the process with exit
// code 2 before anything is communicated.
inline bool Init(int argc, char* argv[]);
// Leaves the job. Waits for the other ranks. True on success, and if there is nothing to leave.
inline bool Finalize();

inline int GetRank();
inline int GetWorldSize();
// The rank before this one when the ranks form a ring.
inline int GetRingPrevRank();
// Whether there are other ranks.
inline bool IsDistributed();
// The name of the machine.
inline std::string GetProcessorName();
// Prints to standard output, from any rank, at once.
inline void TrackerPrint(const std::string& message);
// The same, as printf; at most 4095 bytes.
inline void TrackerPrintf(const char* format, ...);

// --- Operations
//
// Every rank calls them in the same order with the same sizes. They return when the result is here,
// and the result is kept for ranks that die.
//
// is_bootstrap: the operation belongs to the bootstrap phase after LoadCheckPoint: every
// incarnation of a rank that begins at a checkpoint does it before the iterations, when the others
// are long past it, and is given its result again. It is found by where it is called from, and by
// how often it was called there. That place is the last three arguments; leave them to the
// compiler, unless you wrap these functions. What an incarnation does before LoadCheckPoint needs
// no mark, and nothing does where ranks go back to snapshots.

// Gives `size` bytes of rank `root` to all.
inline void Broadcast(void* data, std::size_t size, int root, bool is_bootstrap = false,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                      const char* caller = __builtin_FUNCTION());
// The same for a vector or a string of any length, which is resized. Two operations, or one if
// there are no elements. DType must be trivially copyable.
template <typename DType>
void Broadcast(std::vector<DType>* data, int root, bool is_bootstrap = false,
               const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* caller = __builtin_FUNCTION());
inline void Broadcast(std::string* data, int root, bool is_bootstrap = false,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                      const char* caller = __builtin_FUNCTION());

// Reduces `count` elements in place: afterwards data[i] is OP over the data[i] of all ranks, with
// the same bits everywhere. DType: char, int, long, long long, signed or not, float, double.
// prepare(argument) fills `data` before the operation; it is not called when the result is already
// known, in a rank that was started again. (Above 2^31 - 1 elements it is always called.)
template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, void (*prepare)(void*) = nullptr,
               void* argument = nullptr, bool is_bootstrap = false,
               const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* caller = __builtin_FUNCTION());
template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, std::function<void()> prepare,
               bool is_bootstrap = false, const char* file = __builtin_FILE(),
               int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION());

// Every rank has a slice of `data`: size_slice of its total_size elements, from slice_begin on; the
// next rank's begins where it ends. Afterwards all have all slices. size_prev_slice: of rank - 1
// (of the last rank for rank 0); it is checked. (The ancestor's header calls the fourth argument
// slice_end, but its code takes a size.) DType must be trivially copyable; total_size <= 2^31 - 1.
template <typename DType>
void Allgather(DType* data, std::size_t total_size, std::size_t slice_begin, std::size_t size_slice,
               std::size_t size_prev_slice, bool is_bootstrap = false,
               const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* caller = __builtin_FUNCTION());

// As above, for wrappers that name the place themselves and know no is_bootstrap.
inline void Broadcast(void* data, std::size_t size, int root, const char* file, int line,
                      const char* caller);
template <typename DType>
void Broadcast(std::vector<DType>* data, int root, const char* file, int line, const char* caller);
inline void Broadcast(std::string* data, int root, const char* file, int line, const char* caller);
template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, void (*prepare)(void*), void* argument,
               const char* file, int line, const char* caller);
template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, std::function<void()> prepare, const char* file,
               int line, const char* caller);
template <typename DType>
void Allgather(DType* data, std::size_t total_size, std::size_t slice_begin, std::size_t size_slice,
               std::size_t size_prev_slice, const char* file, int line, const char* caller);

// --- Checkpoints

// Loads a checkpoint and returns its version, which is the number of checkpoints that were made. 0:
// there is none, the models are not touched, and the program begins. Where ranks go back to
// checkpoints it is the newest one; elsewhere it is what ftrun --resume gave, the same in every
// incarnation. To be called once, before the first CheckPoint. Local: it does not wait for other
// ranks. A model that does not load ends the job.
inline int LoadCheckPoint(Serializable* global_model, Serializable* local_model = nullptr);

// "All that happened before this is in my models." Every rank calls it at the same place. The
// global model must be the same bytes at every rank and is kept once; the local model is this
// rank's own, and costs more. Waits for the other ranks. Where ranks go back to checkpoints, it
// copies both before, and afterwards the journal is truncated.
inline void CheckPoint(const Serializable* global_model, const Serializable* local_model = nullptr,
                       const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                       const char* caller = __builtin_FUNCTION());

// The same, but the model is only serialised when it is worth it, and always within this call. A
// rank that dies may have to go back further than to the last version.
inline void LazyCheckPoint(const Serializable* global_model, const char* file = __builtin_FILE(),
                           int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION());

// Returns the version that this rank has loaded or made last; 0: none.
inline int VersionNumber();

// --- Reductions of your own

// Reduces structs with a function of yours: freduce(dst, src) combines src into dst. It must be
// associative and commutative; ranks are combined in the same order every time. DType must be
// trivially copyable and have no pointers in it.
template <typename DType, void (*freduce)(DType& dst, const DType& src)>
class Reducer {
 public:
  // As the free function Allreduce.
  void Allreduce(DType* data, std::size_t count, void (*prepare)(void*) = nullptr,
                 void* argument = nullptr, bool is_bootstrap = false,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                 const char* caller = __builtin_FUNCTION());
  void Allreduce(DType* data, std::size_t count, std::function<void()> prepare,
                 bool is_bootstrap = false, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION());
};

// Reduces objects of any kind. DType needs
//   Save(Stream& to) const, Load(Stream& from), Reduce(const DType& source, size_t max_nbyte)
// and a default constructor. max_nbyte: what one object may need when it is saved, partial and
// final results included; more is an error of the program.
template <typename DType>
class SerializeReducer {
 public:
  void Allreduce(DType* objects, std::size_t max_nbyte, std::size_t count,
                 void (*prepare)(void*) = nullptr, void* argument = nullptr,
                 bool is_bootstrap = false, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION());
  void Allreduce(DType* objects, std::size_t max_nbyte, std::size_t count,
                 std::function<void()> prepare, bool is_bootstrap = false,
                 const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                 const char* caller = __builtin_FUNCTION());

 private:
  std::string buffer_;
};

}  // namespace rabit

#include "rabit/internal/rabit-inl.h"
