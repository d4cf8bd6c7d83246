// Serializable models to and from the bytes of a checkpoint.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "rabit/internal/engine.h"
#include "rabit/serializable.h"

namespace rabit {
namespace internal {

// Reads a model. Reads at the end are short, as for any stream; many Load functions read until
// then.
class ModelReader : public dmlc::Stream {
 public:
  explicit ModelReader(Bytes bytes) : bytes_(bytes), position_(0) {}
  using dmlc::Stream::Read;
  using dmlc::Stream::Write;
  std::size_t Read(void* data, std::size_t size) override {
    const std::size_t there = std::min(size, bytes_.size - position_);
    if (there != 0) std::memcpy(data, static_cast<const char*>(bytes_.data) + position_, there);
    position_ += there;
    return there;
  }
  void Write(const void*, std::size_t) override {
    fail("Load of a model must read from its stream, not write to it");
  }

 private:
  Bytes bytes_;
  std::size_t position_;
};

// Collects a model. Its memory is reused for the next one, because new pages would cost more than
// the copy.
class ModelWriter : public dmlc::Stream {
 public:
  ModelWriter() : data_(nullptr), size_(0), capacity_(0) {}
  ~ModelWriter() override { std::free(data_); }
  ModelWriter(const ModelWriter&) = delete;
  ModelWriter& operator=(const ModelWriter&) = delete;

  using dmlc::Stream::Read;
  using dmlc::Stream::Write;
  std::size_t Read(void*, std::size_t) override {
    fail("Save of a model must write to its stream, not read from it");
  }
  void Write(const void* data, std::size_t size) override {
    if (size == 0) return;
    if (size > capacity_ - size_) reserve(size);
    std::memcpy(data_ + size_, data, size);
    size_ += size;
  }
  // Returns the serialised model, valid until the next call. A null model has no bytes.
  Bytes take(const dmlc::Serializable* model) {
    size_ = 0;
    if (model != nullptr) model->Save(this);
    const Bytes bytes = {size_ == 0 ? nullptr : data_, size_};
    return bytes;
  }

 private:
  void reserve(std::size_t more) {
    capacity_ = std::max(size_ + more, 2 * capacity_);
    void* moved = std::realloc(data_, capacity_);
    if (moved == nullptr) fail("no memory for a model of %zu bytes", capacity_);
    data_ = static_cast<char*>(moved);
  }

  char* data_;
  std::size_t size_;
  std::size_t capacity_;
};

class LazyWriter : public dmlc::Stream {
 public:
  explicit LazyWriter(LazyTarget* target) : target_(target) {}
  using dmlc::Stream::Read;
  using dmlc::Stream::Write;
  std::size_t Read(void*, std::size_t) override {
    fail("Save of a model must write to its stream, not read from it");
  }
  void Write(const void* data, std::size_t size) override { write_lazily(target_, data, size); }

 private:
  LazyTarget* target_;
};

inline void save_lazily(const void* model, LazyTarget* target) {
  LazyWriter writer(target);
  static_cast<const dmlc::Serializable*>(model)->Save(&writer);
}

// Loads a model. Ends the job if Load throws; `which` names the model.
inline void load_model(dmlc::Serializable* model, Bytes bytes, int version, const char* which) {
  if (model == nullptr) return;
  ModelReader reader(bytes);
  try {
    model->Load(&reader);
  } catch (const std::exception& error) {
    fail("LoadCheckPoint: the %s model of version %d (%zu bytes) does not load: %s", which, version,
         bytes.size, error.what());
  } catch (...) {
    fail("LoadCheckPoint: the %s model of version %d (%zu bytes) does not load: its Load threw",
         which, version, bytes.size);
  }
}

}  // namespace internal
}  // namespace rabit
