// A job whose ranks are threads of this process over one anonymous segment.
#pragma once

#include <sys/mman.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/transport/shm/host.h"
#include "recovery/rank.h"

namespace rejoin::test {

using Rank = recovery::BasicRank<engine::ShmHost>;

class Mapping {
 public:
  explicit Mapping(std::size_t bytes, int visibility) : bytes_(bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   visibility | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(p);
  }
  ~Mapping() { munmap(memory_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* get() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_;
};

class ThreadJob {
 public:
  explicit ThreadJob(std::uint32_t ranks, std::uint64_t limit_bytes = 0)
      : ranks_(ranks), segment_(journal::segment_bytes_for(ranks, limit_bytes), MAP_SHARED) {
    journal::format_segment(base(), ranks, 1, limit_bytes, 2);
    if (limit_bytes != 0)
      journal::let_recycle(base(), journal::Recycles::kAll);  // an agent waits for a full journal
  }

  std::byte* base() const { return segment_.get(); }

  // Runs body(rank, world) in one thread for each rank, in a new incarnation of each.
  using Body = std::function<void(Rank&, Rank::Comm&)>;
  void run(const Body& body) {
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      threads.emplace_back([this, r, &body] { run_one(r, body); });
    }
    for (std::thread& t : threads) t.join();
  }

  void run_one(std::uint32_t r, const Body& body) {
    Mapping memory(std::size_t{1} << 30, MAP_PRIVATE);
    engine::ShmHost host(base(), r, -1);
    journal::Arena arena(memory.get(), std::size_t{1} << 30);
    Rank rank(host, arena);
    std::vector<std::uint32_t> everybody(ranks_);
    for (std::uint32_t i = 0; i < ranks_; ++i) everybody[i] = i;
    body(rank, *rank.make_comm(journal::derive_context(0, 0, 1), everybody.data(), ranks_));
  }

  // The agent's steps when a rank has died.
  void restart(std::uint32_t r) {
    journal::publish_death(base(), r);
    journal::admit(base(), r, journal::control_of(base(), r)->incarnation.load() + 1);
  }

 private:
  std::uint32_t ranks_;
  Mapping segment_;
};

inline recovery::Call call(recovery::OpKind kind, std::uint64_t bytes, int root = -1,
                           const void* site = nullptr) {
  recovery::Call c = {};
  c.signature.kind = static_cast<std::uint16_t>(kind);
  c.signature.bytes = bytes;
  c.signature.root = root;
  c.site = site;
  return c;
}

// Sums of int64.
inline engine::Reduction sum_of_int64() {
  return {[](const engine::Reduction&, const void* a, const void* b, void* out, std::size_t count) {
            const auto* x = static_cast<const std::int64_t*>(a);
            const auto* y = static_cast<const std::int64_t*>(b);
            auto* z = static_cast<std::int64_t*>(out);
            for (std::size_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
          },
          sizeof(std::int64_t), false, nullptr};
}

}  // namespace rejoin::test
