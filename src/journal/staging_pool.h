// Staging buffers of a rank, leased by operations: several operations may be under way at once, and
// none writes where another one's readers are.
#pragma once

#include <cstdint>

#include "journal/layout.h"
#include "journal/region.h"

namespace rejoin::journal {

// The buffer that was returned first is leased first, so staged data survives longer for members
// that are slow to read it. A member that finds it overwritten adopts a record.
template <class Host>
class StagingPool {
 public:
  StagingPool(Host& host, Region<Host>& region)
      : host_(host), region_(region), head_(region.head()) {
    rebase();
  }

  // Frees all buffers that this process has not leased, also those that a former incarnation has
  // added.
  void rebase() {
    first_ = free_ = 0;
    for (std::uint32_t i = 0; i < head_->staging_buffers; ++i) {
      if (!is_leased_[i]) put(head_->staging[i]);
    }
  }

  // 0: no more memory, or kMaxStagingBuffers are leased.
  Offset lease() {
    if (free_ == 0 && !grow()) return 0;
    const Offset at = ring_[first_];
    if (!host_.touch(host_.rank(), host_.base() + at, sizeof(StagingBuffer))) return 0;
    first_ = (first_ + 1) % kMaxStagingBuffers;
    --free_;
    is_leased_[index_of(at)] = true;
    return at;
  }
  void give_back(Offset at) {
    is_leased_[index_of(at)] = false;
    put(at);
  }

 private:
  void put(Offset at) {
    ring_[(first_ + free_) % kMaxStagingBuffers] = at;
    ++free_;
  }
  std::uint32_t index_of(Offset at) const {
    std::uint32_t i = 0;
    while (head_->staging[i] != at) ++i;
    return i;
  }

  bool grow() {
    std::uint32_t& count = head_->staging_buffers;
    if (count == kMaxStagingBuffers) return false;
    const Offset at = region_.memory().allocate_permanent(sizeof(StagingBuffer));
    if (at == 0) return false;
    head_->staging[count] = at;
    ++count;
    put(at);
    return true;
  }

  Host& host_;
  Region<Host>& region_;
  RegionHead* head_;
  Offset ring_[kMaxStagingBuffers] = {};  // free ones, [first_, first_ + free_)
  std::uint32_t first_ = 0;
  std::uint32_t free_ = 0;
  bool is_leased_[kMaxStagingBuffers] = {};  // by the index in RegionHead::staging
};

}  // namespace rejoin::journal
