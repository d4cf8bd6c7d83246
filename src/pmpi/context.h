// The state of the MPI face in one process, and the memory that it uses.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// The handles of one kind that Fortran can see. Fortran sees a handle as an integer, its index in
// the table. A handle enters the table when MPI_X_c2f asks for the integer.
struct HandleTable {
  int first;  // integer of entry 0; below it are the predefined handles
  void** entries;
  int count;
  int capacity;
};

// The language that an attribute's value or functions belong to: C (pointers), or Fortran (integers
// of MPI 1, or of the size of an address).
enum class AttributeKind : std::uint8_t { kPointer, kInteger, kAddress };

struct Keyval {
  MPI_Comm_copy_attr_function* copy;  // functions for other objects or languages are cast
  MPI_Comm_delete_attr_function* remove;
  void* extra_state;
  AttributeKind kind;
  int references;  // by the program's handle and by attributes; 0: freed
};

struct F90Type;  // datatype_f90.cc

// An error class or code that the program has added.
struct AddedError {
  int error_class;
  char text[MPI_MAX_ERROR_STRING];
};

// The call site that the program has named for its next operation; null: the return address counts.
struct NamedSite {
  const char* file;
  const char* function;
  std::uint32_t line;
};

struct Context {
  recovery::Rank* rank;
  NamedSite site;
  bool hinted;  // the program has said something about its next operation
  recovery::Hint hint, hint_in_use;
  int thread_level;
  pthread_t first_thread;
  bool finalized;

  const datatypes::Type** maps;  // maps of predefined datatypes, made when they are needed
  F90Type* f90_types;            // oldest first

  HandleTable comms, groups, types, ops, errhandlers, infos, requests, messages;
  Keyval* keyvals;
  int keyval_count;
  int keyval_capacity;
  MPI_Errhandler file_errhandler;  // handler of MPI_FILE_NULL; null: not set by the program
  AddedError* errors;
  int error_count;
  int error_capacity;

  MPI_Request freed_requests;   // requests that the program has freed and that are still active
  MPI_Request unused_requests;  // memory for further requests
  void* attached;               // by MPI_Buffer_attach
  std::size_t attached_bytes;

  // Predefined attributes point to these.
  int universe_size;
  int program;  // the number of this process's program in the job
  int last_used_code;

  // The newest failure. MPI_Error_string returns its text instead of the text of its class.
  int last_code;
  char last_text[1024];
};

// The state of the shim. Null until MPI_Init.
extern Context* context;

// Whether a call needs an Entered object: several threads may be in the library (between
// MPI_Init_thread, with MPI_THREAD_MULTIPLE, and MPI_Finalize), or the call may belong to a replay
// that is measured. Every call reads this, so it is a variable of its own.
extern bool is_watched;
extern bool is_shared;               // several threads may be in the library
extern bool is_timed;                // a replay is measured, or was just now
extern std::uint32_t calls_untimed;  // 1: the next call is measured, 0: one is being measured

// Returns whether a call that may communicate needs an Entered object. Must be called once for each
// call, because it counts calls.
inline bool is_next_watched() { return is_watched && (is_shared || --calls_untimed == 0); }

inline bool active() { return context != nullptr && !context->finalized; }

// Exists while a call of the program lasts. Under MPI_THREAD_MULTIPLE it holds the library's lock:
// one thread at a time is in the library, and a thread that waits lets others in.
class Entered {
 public:
  Entered() : shared_(is_shared) {
    if (shared_) [[unlikely]]
      enter();
    if (is_timed) [[unlikely]]
      begin_timing();
  }
  ~Entered() {
    if (timed_) [[unlikely]]
      end_timing();
    if (shared_) [[unlikely]]
      context->rank->host().leave();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  // init.cc
  void enter();
  void begin_timing();
  void end_timing();
  const bool shared_;
  bool timed_ = false;
};

// Ends the process, as Open MPI does, unless MPI is initialised and not finalised.
void require_active(const char* function);

// --- Texts

// Copies a text, truncated to fit, into an array of the program that has `room` bytes according to
// MPI, and fills the rest with zeros: programs often send such arrays whole, and left-over bytes
// after the text would differ in a replay. Returns the length of the text.
int give_text(char* to, std::size_t room, const char* text);

// --- Memory

// Memory of the shim, 64-byte aligned; ends the job when there is no more.
void* allocate(std::size_t bytes);
void release(void* memory, std::size_t bytes);

template <class T>
T* make() {
  return new (allocate(sizeof(T))) T{};
}
template <class T>
void destroy(T* object) {
  release(object, sizeof(T));
}

// Makes room for one more element in an array of `capacity` elements that holds `count`.
template <class T>
void grow(T** array, int count, int* capacity) {
  if (count < *capacity) return;
  const int larger = *capacity == 0 ? 8 : 2 * *capacity;
  T* moved = static_cast<T*>(allocate(larger * sizeof(T)));
  for (int i = 0; i < count; ++i) moved[i] = (*array)[i];
  if (*capacity > 0) release(*array, *capacity * sizeof(T));
  *array = moved;
  *capacity = larger;
}

// Temporary memory of one call.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t bytes) { reserve(bytes); }
  ~Scratch() {
    if (memory_ != nullptr) release(memory_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* reserve(std::size_t bytes) {  // once
    memory_ = allocate(bytes);
    bytes_ = bytes;
    return data();
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rejoin::pmpi
