// Streams, and what can be written to and read from them.
//
//     struct Model : rabit::Serializable {
//       int rounds;
//       std::vector<float> weights;
//       void Load(rabit::Stream* from) override { from->Read(&rounds); from->Read(&weights); }
//       void Save(rabit::Stream* to) const override { to->Write(rounds); to->Write(weights); }
//     };
//
// The types belong to namespace dmlc. A program that has dmlc-core on its include path gets
// dmlc-core's own, so that its objects are Serializable here as well; any other gets these.
#pragma once

#if defined(__has_include)
#if __has_include(<dmlc/io.h>)
#define RABIT_DMLC_CORE 1
#endif
#endif

#ifdef RABIT_DMLC_CORE
#include <dmlc/io.h>
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

#endif  // RABIT_DMLC_CORE

namespace rabit {

typedef dmlc::Stream Stream;
typedef dmlc::Serializable Serializable;

}  // namespace rabit
