// dmlc-core's streams: dmlc-core's own file if it is anywhere on the include path, so that its
// objects are rabit's as well; else the part of it that rabit shows to programs.
#pragma once
#pragma GCC system_header  // for include_next

#if __has_include_next(<dmlc/io.h>)
#include_next <dmlc/io.h>
#else

#include <cstddef>

namespace dmlc {

// A sequence of bytes to write to or to read from.
class Stream {
 public:
  virtual ~Stream() {}
  // Reads up to `size` bytes; returns how many there were. Fewer than asked for: that was the end.
  virtual std::size_t Read(void* data, std::size_t size) = 0;
  // Appends `size` bytes.
  virtual void Write(const void* data, std::size_t size) = 0;

  // Values: trivially copyable types, std::string, std::pair, the standard containers of values,
  // and classes with Save(Stream*) const and Load(Stream*). A number is its bytes in memory; a
  // string or container is its length as 64 bits, then the elements. Anything else does not
  // compile.
  template <typename T>
  void Write(const T& value);
  // Reads what Write(value) wrote. False: the stream ended before; then *value is unspecified.
  template <typename T>
  bool Read(T* value);
};

// A stream with a position.
class SeekStream : public Stream {
 public:
  // Sets the position, in bytes from the start.
  virtual void Seek(std::size_t position) = 0;
  // The position, in bytes from the start.
  virtual std::size_t Tell() = 0;
};

// A model that can be put into a checkpoint.
class Serializable {
 public:
  virtual ~Serializable() {}
  // Takes over the state that `from` holds; reads no more than Save wrote.
  virtual void Load(Stream* from) = 0;
  // Writes the whole state. Called by CheckPoint, or, after LazyCheckPoint, within that call.
  virtual void Save(Stream* to) const = 0;
};

}  // namespace dmlc

#include "rabit/internal/serializer.h"

namespace dmlc {

template <typename T>
void Stream::Write(const T& value) {
  serializer::Handler<T>::write(this, value);
}

template <typename T>
bool Stream::Read(T* value) {
  return serializer::Handler<T>::read(this, value);
}

}  // namespace dmlc

#endif
