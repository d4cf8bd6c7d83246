// What the members of one attempted operation show each other while it lasts: slots, staging
// buffers, and an extent of the leader's that all of them fill. These conversations never leave a
// host, and nothing of them is needed after the operation's record is published.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/contexts.h"
#include "journal/layout.h"

namespace rejoin::journal {

class AttemptMemory {
 public:
  template <class H>
  explicit AttemptMemory(const H& host) : base_(host.base()) {}

  // Null: member i has not made its block of the context yet.
  const Slot* slot(Members& m, std::uint32_t i, std::uint64_t sequence) const {
    const ContextBlock* b = block_of(base_, m, i);
    return b == nullptr ? nullptr : &b->slot[sequence % kSlots];
  }
  static Slot& own_slot(Members& m, std::uint64_t sequence) {
    return m.mine->slot[sequence % kSlots];
  }
  Offset place(const Slot& slot) const {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&slot) - base_);
  }
  const StagingBuffer& staging(Offset at) const {
    return *reinterpret_cast<const StagingBuffer*>(base_ + at);
  }
  // REQUIRES a buffer that this rank has leased.
  StagingBuffer& own_staging(Offset at) const {
    return *reinterpret_cast<StagingBuffer*>(base_ + at);
  }
  // The extent that the leader of an attempt has lent to its members: each writes its own slice.
  std::byte* extent(Offset at) const { return base_ + at; }

 private:
  std::byte* base_;
};

}  // namespace rejoin::journal
