// Converts arguments between Fortran and C. Fortran passes addresses; handles are integers,
// logicals are 0 and 1, indices begin at 1, text has a length and blanks at its end. For an
// argument that the function may change there is an object whose destructor writes it back.
#pragma once

#include <stdlib.h>
#include <string.h>

#include <type_traits>

#include "pmpi/mpi_api.h"

extern "C" {
// Fortran's named constants, common blocks that are recognised by their addresses.
extern int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_unweighted_,
    mpi_fortran_weights_empty_;
extern double mpi_fortran_status_ignore_, mpi_fortran_statuses_ignore_;
}

namespace rejoin::mpifh {

static_assert(std::is_same_v<MPI_Fint, int>);

// The error code is optional in mpi_f08.
inline void give(MPI_Fint* ierr, int code) {
  if (ierr != nullptr) *ierr = code;
}

// Converts the address of a buffer.
inline void* choice(void* buffer) {
  if (buffer == &mpi_fortran_bottom_) return MPI_BOTTOM;
  if (buffer == &mpi_fortran_in_place_) return MPI_IN_PLACE;
  return buffer;
}
inline bool in_place(const void* buffer) { return buffer == &mpi_fortran_in_place_; }

// Converts the weights of a graph's edges.
inline int* weighting(MPI_Fint* values) {
  if (values == &mpi_fortran_unweighted_) return MPI_UNWEIGHTED;
  if (values == &mpi_fortran_weights_empty_) return MPI_WEIGHTS_EMPTY;
  return values;
}

// --- Handles

template <class H>
H to_c(const MPI_Fint* handle);
#define REJOIN_HANDLE(H, Kind)               \
  template <>                                \
  inline H to_c<H>(const MPI_Fint* handle) { \
    return PMPI_##Kind##_f2c(*handle);       \
  }                                          \
  inline MPI_Fint to_fortran(H handle) { return PMPI_##Kind##_c2f(handle); }
REJOIN_HANDLE(MPI_Comm, Comm)
REJOIN_HANDLE(MPI_Datatype, Type)
REJOIN_HANDLE(MPI_Errhandler, Errhandler)
REJOIN_HANDLE(MPI_File, File)
REJOIN_HANDLE(MPI_Group, Group)
REJOIN_HANDLE(MPI_Info, Info)
REJOIN_HANDLE(MPI_Message, Message)
REJOIN_HANDLE(MPI_Op, Op)
REJOIN_HANDLE(MPI_Request, Request)
REJOIN_HANDLE(MPI_Win, Win)
#undef REJOIN_HANDLE

// A handle that the function returns, frees or completes.
template <class H>
struct Handle {
  explicit Handle(MPI_Fint* to) : handle(to_c<H>(to)), before(handle), fortran(to) {}
  ~Handle() {
    if (handle != before) *fortran = to_fortran(handle);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  H handle, before;
  MPI_Fint* fortran;
};

// Memory of `count` elements for one call. A negative count means none; the MPI function raises the
// error.
template <class T>
class Array {
 public:
  explicit Array(int count) : count_(count > 0 ? count : 0) {
    if (count_ <= kFew) return;
    elements_ = static_cast<T*>(malloc(static_cast<std::size_t>(count_) * sizeof(T)));
    if (elements_ == nullptr) abort();
  }
  ~Array() {
    if (elements_ != few_) free(elements_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  int size() const { return count_; }
  T* data() { return elements_; }
  T& operator[](int i) { return elements_[i]; }

 private:
  static constexpr int kFew = 16;
  int count_;
  T few_[kFew];
  T* elements_ = few_;
};

template <class H>
class Handles {
 public:
  Handles(MPI_Fint* fortran, int count) : fortran_(fortran), handles_(count), before_(count) {
    for (int i = 0; i < handles_.size(); ++i) handles_[i] = before_[i] = to_c<H>(&fortran[i]);
  }
  ~Handles() {
    for (int i = 0; i < handles_.size(); ++i) {
      if (handles_[i] != before_[i]) fortran_[i] = to_fortran(handles_[i]);
    }
  }
  operator H*() { return handles_.data(); }

 private:
  MPI_Fint* fortran_;
  Array<H> handles_, before_;
};

// Returns the number of types in the lists of MPI_Alltoallw; 0: `comm` is no communicator.
int members_of(const MPI_Fint* comm, bool sent);
// The same for MPI_Neighbor_alltoallw.
int neighbours_of(const MPI_Fint* comm, bool sent);

// --- Numbers

struct Logical {
  explicit Logical(MPI_Fint* to) : value(*to), fortran(to) {}
  ~Logical() { *fortran = value != 0; }
  Logical(const Logical&) = delete;
  Logical& operator=(const Logical&) = delete;

  int value;
  MPI_Fint* fortran;
};

struct Index {
  explicit Index(MPI_Fint* to) : value(MPI_UNDEFINED), fortran(to) {}
  ~Index() { *fortran = value == MPI_UNDEFINED ? MPI_UNDEFINED : value + 1; }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  int value;
  MPI_Fint* fortran;
};

// Converts the first `*count` of `indices` after the call. A function that fails may not set the
// count.
class Indices {
 public:
  Indices(MPI_Fint* indices, MPI_Fint* count) : indices_(indices), count_(count) {
    *count = MPI_UNDEFINED;
  }
  ~Indices() {
    for (int i = 0; i < *count_; ++i) ++indices_[i];
  }
  Indices(const Indices&) = delete;
  Indices& operator=(const Indices&) = delete;

 private:
  MPI_Fint* indices_;
  const MPI_Fint* count_;
};

// --- Statuses: the same six integers in both languages, but Fortran aligns them less.

class Statuses {
 public:
  Statuses(MPI_Fint* fortran, int count)
      : fortran_(is_ignored(fortran) ? nullptr : fortran), statuses_(fortran_ ? count : 0) {
    if (bytes() > 0) memcpy(statuses_.data(), fortran_, bytes());
  }
  ~Statuses() {
    if (bytes() > 0) memcpy(fortran_, statuses_.data(), bytes());
  }
  operator MPI_Status*() { return fortran_ == nullptr ? MPI_STATUSES_IGNORE : statuses_.data(); }

 private:
  static bool is_ignored(const void* status) {
    return status == &mpi_fortran_status_ignore_ || status == &mpi_fortran_statuses_ignore_;
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(statuses_.size()) * sizeof(MPI_Status);
  }

  MPI_Fint* fortran_;
  Array<MPI_Status> statuses_;
};

// A status that is only read.
class StatusIn {
 public:
  explicit StatusIn(const MPI_Fint* fortran) : ignored_(fortran == ignored()) {
    if (!ignored_) memcpy(&status_, fortran, sizeof status_);
  }
  operator const MPI_Status*() const { return ignored_ ? nullptr : &status_; }

 private:
  static const void* ignored() { return &mpi_fortran_status_ignore_; }
  bool ignored_;
  MPI_Status status_;
};

// --- Text

// Text without the blanks at its end.
class Text {
 public:
  Text(const char* fortran, int length) : text_(without_blanks(fortran, length) + 1) {
    const int characters = text_.size() - 1;
    memcpy(text_.data(), fortran, static_cast<std::size_t>(characters));
    text_[characters] = '\0';
  }
  operator const char*() { return text_.data(); }

 private:
  static int without_blanks(const char* fortran, int length) {
    while (length > 0 && fortran[length - 1] == ' ') --length;
    return length;
  }
  Array<char> text_;
};

// Keys and values of info objects also lose the blanks at their beginning.
class InfoText : public Text {
 public:
  InfoText(const char* fortran, int length)
      : Text(fortran + leading(fortran, length), length - leading(fortran, length)) {}

 private:
  static int leading(const char* fortran, int length) {
    int blanks = 0;
    while (blanks < length && fortran[blanks] == ' ') ++blanks;
    return blanks;
  }
};

// Copies `from` to `length` characters: truncated, or padded with blanks.
inline void put_text(const char* from, char* fortran, int length) {
  const int characters = static_cast<int>(strnlen(from, static_cast<std::size_t>(length)));
  memcpy(fortran, from, static_cast<std::size_t>(characters));
  memset(fortran + characters, ' ', static_cast<std::size_t>(length - characters));
}

// Text that the function returns, if it returns any.
class TextOut {
 public:
  TextOut(char* fortran, int length) : fortran_(fortran), length_(length) { text_[0] = kUntouched; }
  ~TextOut() {
    if (text_[0] != kUntouched) put_text(text_, fortran_, length_);
  }
  TextOut(const TextOut&) = delete;
  TextOut& operator=(const TextOut&) = delete;
  operator char*() { return text_; }

 private:
  static constexpr char kUntouched = '\x7f';
  char* fortran_;
  int length_;
  char text_[MPI_MAX_PORT_NAME + 1];  // MPI's longest text
};

}  // namespace rejoin::mpifh
