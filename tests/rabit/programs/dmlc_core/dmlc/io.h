// The part of dmlc-core's header of this name that rabit needs.
#pragma once

#include <cstddef>

namespace dmlc {

constexpr bool kFromDmlcCore = true;

class Stream {
 public:
  virtual ~Stream() {}
  virtual std::size_t Read(void* data, std::size_t size) = 0;
  virtual void Write(const void* data, std::size_t size) = 0;
};

class SeekStream : public Stream {
 public:
  virtual void Seek(std::size_t position) = 0;
  virtual std::size_t Tell() = 0;
};

class Serializable {
 public:
  virtual ~Serializable() {}
  virtual void Load(Stream* from) = 0;
  virtual void Save(Stream* to) const = 0;
};

}  // namespace dmlc
