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
// A program that is started without ftrun is a world of one; `ftrun -n 8 ./program` runs eight
// ranks. A rank that dies is started again. It goes on from a snapshot of its process, from main,
// or at the newest checkpoint (docs/checkpoints.md), and gets the recorded results that it lacks.
// The other ranks lose no work.
//
// All functions must be called by the main thread. Without Init, and after Finalize, the process is
// a world of one rank. Errors that make it impossible to continue (a wrong root, a model that does
// not load) end the job with one line on standard error and exit code 1.
//
// Parameters are arguments of the form name=value, or environment variables of that name. An
// argument overrides a variable. Other arguments belong to the program, and unknown names are no
// error.
//
//   mock=RANK,VERSION,SEQ,NDEATH  kill -9 rank RANK, in its incarnation NDEATH (from 0), after
//                                 VERSION checkpoints and SEQ operations since (at its first call
//                                 if it goes on from a later snapshot); may be repeated
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
// The parameters from rabit_reduce_buffer on are checked and have no effect. Results are built in
// place and retained as long as a rank may need them; operations before LoadCheckPoint are always
// answered by the journal; the algorithm of an operation is chosen by size; and ftrun has a
// --timeout.
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

// The operators with which Allreduce combines the elements of all ranks.
namespace op {
struct Max;
struct Min;
struct Sum;
struct BitOR;  // integers only
}  // namespace op

// Reads the parameters and makes this process a rank. Waits for the other ranks. Returns false,
// with a line on standard error, if the process was finalized before. A parameter of wrong form
// ends the process with exit code 2 before anything is communicated.
inline bool Init(int argc, char* argv[]);
// Leaves the job. Waits for the other ranks. Returns true on success, and if there is no job.
inline bool Finalize();

inline int GetRank();
inline int GetWorldSize();
// Returns the rank before this one if the ranks form a ring.
inline int GetRingPrevRank();
// Returns whether there are other ranks.
inline bool IsDistributed();
// Returns the name of the machine.
inline std::string GetProcessorName();
// Prints to standard output, from any rank, at once.
inline void TrackerPrint(const std::string& message);
// Prints like printf, at most 4095 bytes, in the same way.
inline void TrackerPrintf(const char* format, ...);

// --- Operations
//
// Every rank must call them in the same order with the same sizes. They return when this rank has
// the result, which is recorded for ranks that die.
//
// is_bootstrap: marks the operation as part of the bootstrap phase after LoadCheckPoint. Every
// incarnation of a rank that begins at a checkpoint calls it before the iterations, when the other
// ranks are long past it, and gets the recorded result. The result is identified by the call site,
// and by how often it was called there. The last three arguments are the call site; leave them to
// the compiler, unless you wrap these functions. Operations before LoadCheckPoint need no mark, and
// if ranks go back to snapshots no operation does.

// Broadcasts `size` bytes of rank `root` to all ranks.
inline void Broadcast(void* data, std::size_t size, int root, bool is_bootstrap = false,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                      const char* caller = __builtin_FUNCTION());
// Broadcasts a vector or a string of any length, which is resized. It takes two operations, or one
// if there are no elements. DType must be trivially copyable.
template <typename DType>
void Broadcast(std::vector<DType>* data, int root, bool is_bootstrap = false,
               const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* caller = __builtin_FUNCTION());
inline void Broadcast(std::string* data, int root, bool is_bootstrap = false,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                      const char* caller = __builtin_FUNCTION());

// Reduces `count` elements in place: afterwards data[i] is OP over the data[i] of all ranks, with
// the same bits at every rank. DType: char, int, long, long long, signed or not, float, double.
// prepare(argument) fills `data` before the operation. It is not called in a restarted rank if the
// result is recorded. (Above 2^31 - 1 elements it is always called.)
template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, void (*prepare)(void*) = nullptr,
               void* argument = nullptr, bool is_bootstrap = false,
               const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* caller = __builtin_FUNCTION());
template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, std::function<void()> prepare,
               bool is_bootstrap = false, const char* file = __builtin_FILE(),
               int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION());

// Gathers `data` at all ranks. Every rank has a slice: size_slice of the total_size elements, from
// slice_begin on; the slice of the next rank begins at its end. size_prev_slice: the size of the
// slice of rank - 1 (for rank 0, of the last rank), which is checked. (The ancestor's header calls
// the fourth argument slice_end, but its code takes a size.) DType must be trivially copyable;
// total_size <= 2^31 - 1.
template <typename DType>
void Allgather(DType* data, std::size_t total_size, std::size_t slice_begin, std::size_t size_slice,
               std::size_t size_prev_slice, bool is_bootstrap = false,
               const char* file = __builtin_FILE(), int line = __builtin_LINE(),
               const char* caller = __builtin_FUNCTION());

// As above, for wrappers that pass the call site themselves, without is_bootstrap.
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
// there is none, the models are not changed, and the program begins. If ranks go back to
// checkpoints it is the newest one. Otherwise it is the one with which ftrun --resume has started
// the job, the same in every incarnation. Must be called once, before the first CheckPoint. It does
// not wait for other ranks. A model that does not load ends the job.
inline int LoadCheckPoint(Serializable* global_model, Serializable* local_model = nullptr);

// Makes a checkpoint. The models must contain all that the program needs of its past. Every rank
// must call it at the same place. The global model must be the same bytes at every rank, and is
// stored once; the local model is this rank's own, and costs more. Waits for the other ranks. If
// ranks go back to checkpoints, both models are copied, and then the journal is truncated.
inline void CheckPoint(const Serializable* global_model, const Serializable* local_model = nullptr,
                       const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                       const char* caller = __builtin_FUNCTION());

// Makes a checkpoint of a model that is serialised only if that is worth its cost, within this call
// or not at all. A rank that dies may have to go back to an earlier version than the last.
inline void LazyCheckPoint(const Serializable* global_model, const char* file = __builtin_FILE(),
                           int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION());

// Returns the version that this rank has loaded or made last; 0: there is none.
inline int VersionNumber();

// --- User-defined reductions

// Reduces structs with a user-defined function: freduce(dst, src) combines src into dst. It must be
// associative and commutative; ranks are combined in the same order every time. DType must be
// trivially copyable and must not contain pointers.
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
// and a default constructor. max_nbyte: the most bytes that one object may need when it is saved,
// including partial and final results; more is an error of the program.
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
