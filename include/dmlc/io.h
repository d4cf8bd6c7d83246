// dmlc-core's streams. If dmlc-core is on the include path, this is its own file, so that its
// objects are rabit's as well; otherwise it is the part of it that rabit uses in its interface.
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
  // Reads up to `size` bytes. Returns how many it has read, which are fewer only at the end.
  virtual std::size_t Read(void* data, std::size_t size) = 0;
  // Appends `size` bytes.
  virtual void Write(const void* data, std::size_t size) = 0;

  // Writes a value: a trivially copyable type, std::string, std::pair, a standard container of
  // values, or a class with Save(Stream*) const and Load(Stream*). A number is written as its bytes
  // in memory, a string or container as its length in 64 bits and its elements. Other types do not
  // compile.
  template <typename T>
  void Write(const T& value);
  // Reads a value that Write(value) has written. False: the stream ended; *value is unspecified.
  template <typename T>
  bool Read(T* value);
};

// A stream with a position.
class SeekStream : public Stream {
 public:
  // Sets the position, in bytes from the start.
  virtual void Seek(std::size_t position) = 0;
  // Returns the position, in bytes from the start.
  virtual std::size_t Tell() = 0;
};

// A model that can be put into a checkpoint.
class Serializable {
 public:
  virtual ~Serializable() {}
  // Loads the state from `from`. Must read no more than Save has written.
  virtual void Load(Stream* from) = 0;
  // Writes the whole state. Called within CheckPoint or LazyCheckPoint.
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
