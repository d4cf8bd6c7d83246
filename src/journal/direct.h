// Large payload for ranks of the same host that wait for it is copied once instead of twice: they
// read the sender's buffer while the sender copies that to the journal. It counts only when the
// journal has all of it, so nothing follows from such a read that does not follow from the journal.
// recovery/DIRECT.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/host.h"
#include "journal/layout.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/waiting.h"

namespace rejoin::journal {

// The value of the word `reads` after a read of the buffer with this check word. During a read it
// is the place of what is read, which is even.
constexpr std::uint64_t has_read(std::uint64_t check) { return check | 1; }

// Whether this process may open buffers, as far as is known. Not with MPI_THREAD_MULTIPLE: another
// thread could send while this one waits for a reader.
template <class H>
bool may_open(const H& host) {
  const RankControl* me = control_of(host.base(), host.rank());
  return host.may_read_others() && me->threads_may_call.load(std::memory_order_relaxed) == 0;
}

template <class H>
void fence_of_reader(H& host) {
  if (!breaks(host, Rule::kFenceOfReader)) host.fence();
}

// The sender's side. While it exists, the readers may read bytes at `data`.
template <class H>
class OpenBuffer {
 public:
  // readers[count]: world ranks of this host; this rank's own among them counts for nothing. They
  // must stay. what: the place in the segment of the entry of the message, or of this rank's slot
  // of a collective. The bytes must not change before the object is destroyed.
  OpenBuffer(H& host, const std::uint32_t* readers, std::uint32_t count, Offset what,
             const std::byte* data)
      : host_(host), readers_(readers), count_(count), what_(what) {
    if (!may_open(host)) return;
    RankControl* me = control_of(host.base(), host.rank());
    if (me->opened.what.load(std::memory_order_relaxed) != 0) return;  // there is one at a time
    OpenedBytes bytes;
    if (!host.open(data, &bytes)) return;
    opened_ = &me->opened;
    const auto set = [&](auto& word, std::uint64_t value) {
      word.store(host_, Step::kSame, value);  // in this order
    };
    set(opened_->at, bytes.at);
    set(opened_->process, bytes.process);
    set(opened_->check_at, bytes.check_at);
    set(opened_->check, bytes.check);
    opened_->what.store(host_, Step::kOpened, what_);
  }
  OpenBuffer(const OpenBuffer&) = delete;
  OpenBuffer& operator=(const OpenBuffer&) = delete;
  ~OpenBuffer() {
    if (opened_ == nullptr) return;
    opened_->what.store(host_, Step::kOpened, 0);
    if (breaks(host_, Rule::kWaitForReader)) return;
    fence_of_reader(host_);  // before the look whether a reader reads
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (readers_[i] == host_.rank()) continue;
      const OwnerWord<std::uint64_t>& reads = reads_of(i);
      wait_until(host_, [&](bool) {
        host_.step(Step::kLook);
        return reads.load() != what_;
      });
    }
  }
  // Whether all readers read the bytes now, or have read them.
  bool is_read() const {
    if (opened_ == nullptr) return false;
    const std::uint64_t check = opened_->check.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (readers_[i] == host_.rank()) continue;
      const std::uint64_t reads = reads_of(i).load(std::memory_order_relaxed);
      if (reads != what_ && reads != has_read(check)) return false;
    }
    return true;
  }

 private:
  const OwnerWord<std::uint64_t>& reads_of(std::uint32_t i) const {
    return control_of(host_.base(), readers_[i])->reads;
  }

  H& host_;
  const std::uint32_t* const readers_;
  const std::uint32_t count_;
  const Offset what_;
  Opened* opened_ = nullptr;
};

// The receiver's side.
template <class H>
class DirectRead {
 public:
  // Larger payload is not read directly: what is read is no longer shared with the newest image of
  // the sender, so the kernel copies it page by page.
  static constexpr std::uint64_t kMost = 1 << 20;

  DirectRead(H& host, const PeerView& peers) : host_(host), peers_(peers) {}

  // Reads bytes [begin, end) of what rank `from` has opened as `what` to the same place in `to`.
  // Returns whether that has been done. still(): looks whether that is what is meant, because it
  // may have been opened again meanwhile. REQUIRES that the journal did not have all of it at the
  // last look.
  template <class Still>
  bool read(std::uint32_t from, Offset what, std::byte* to, std::uint64_t begin, std::uint64_t end,
            Still&& still) {
    if (!host_.may_read_others() || peers_.opened(from) != what) return false;
    OwnerWord<std::uint64_t>& reads = control_of(host_.base(), host_.rank())->reads;
    reads.store(host_, Step::kReads, what);
    fence_of_reader(host_);  // before the second look whether the buffer is open
    host_.step(Step::kLook);
    OpenedBytes bytes = peers_.opened_bytes(from);
    host_.step(Step::kLook);
    // Behind the death of its sender the next incarnation may have opened it again, or another one.
    const bool is_open = peers_.opened(from) == what && peers_.opened_check(from) == bytes.check;
    bool is_read = false;
    if ((is_open || breaks(host_, Rule::kStillOpen)) && still()) {
      bytes.at += begin;
      is_read = host_.read_opened(bytes, to + begin, end - begin);
    }
    reads.store(host_, Step::kReads, is_read ? has_read(bytes.check) : 0);
    ring_sleepers(host_, &from, 1);
    return is_read;
  }

 private:
  H& host_;
  const PeerView& peers_;
};

}  // namespace rejoin::journal
