// A large message to a rank of the same host, whose receiver waits for it, is copied once instead
// of twice: the receiver reads the sender's buffer while the sender copies that to the journal. It
// counts only when the journal has all of it, so nothing follows from such a read that does not
// follow from the journal. recovery/DIRECT.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/host.h"
#include "journal/layout.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/waiting.h"

namespace rejoin::journal {

// In the word `reads`: the message was read. Places of messages are even.
inline constexpr Offset kHasRead = 1;

template <class H>
void fence_of_reader(H& host) {
  if (!breaks(host, Rule::kFenceOfReader)) host.fence();
}

// The sender's side. While it exists, the receiver of the message may read its bytes at `data`.
template <class H>
class OpenBuffer {
 public:
  // message: its entry's place. The bytes must not change before the object is destroyed.
  OpenBuffer(H& host, std::uint32_t to, Offset message, const std::byte* data)
      : host_(host), to_(to), message_(message) {
    RankControl* me = control_of(host.base(), host.rank());
    // Another thread could send while this one waits in the destructor.
    if (me->threads_may_call.load(std::memory_order_relaxed) != 0) return;
    if (me->opened.message.load(std::memory_order_relaxed) != 0) return;  // there is one at a time
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
    opened_->message.store(host_, Step::kOpened, message_);
  }
  OpenBuffer(const OpenBuffer&) = delete;
  OpenBuffer& operator=(const OpenBuffer&) = delete;
  ~OpenBuffer() {
    if (opened_ == nullptr) return;
    opened_->message.store(host_, Step::kOpened, 0);
    if (breaks(host_, Rule::kWaitForReader)) return;
    fence_of_reader(host_);  // before the look whether the receiver reads
    const OwnerWord<Offset>& reads = control_of(host_.base(), to_)->reads;
    wait_until(host_, [&](bool) {
      host_.step(Step::kLook);
      return reads.load() != message_;
    });
  }
  // Whether the receiver reads the bytes now, or has read them.
  bool is_read() const {
    if (opened_ == nullptr) return false;
    const auto& reads = control_of(host_.base(), to_)->reads;
    return (reads.load(std::memory_order_relaxed) & ~kHasRead) == message_;
  }

 private:
  H& host_;
  std::uint32_t to_;
  Offset message_;
  Opened* opened_ = nullptr;
};

// The receiver's side.
template <class H>
class DirectRead {
 public:
  // Larger messages are not read directly: what is read is no longer shared with the newest image
  // of the sender, so the kernel copies it page by page.
  static constexpr std::uint64_t kMost = 1 << 20;

  DirectRead(H& host, const PeerView& peers) : host_(host), peers_(peers) {}

  // Reads bytes [begin, end) of a message to the same place in `to`, if its sender lets it. Returns
  // whether that has been done. message: its entry's place. REQUIRES that the journal did not have
  // all of the message at the last look.
  bool read(std::uint32_t from, Offset message, std::byte* to, std::uint64_t begin,
            std::uint64_t end) {
    if (!host_.may_read_others() || peers_.opened(from) != message) return false;
    OwnerWord<Offset>& reads = control_of(host_.base(), host_.rank())->reads;
    reads.store(host_, Step::kReads, message);
    fence_of_reader(host_);  // before the second look whether the buffer is open
    host_.step(Step::kLook);
    OpenedBytes bytes = peers_.opened_bytes(from);
    host_.step(Step::kLook);
    // Behind the death of its sender the next incarnation may have opened it again, or another one.
    const bool is_open = peers_.opened(from) == message && peers_.opened_check(from) == bytes.check;
    bool has_read = false;
    if (is_open || breaks(host_, Rule::kStillOpen)) {
      bytes.at += begin;
      has_read = host_.read_opened(bytes, to + begin, end - begin);
    }
    reads.store(host_, Step::kReads, has_read ? message | kHasRead : 0);
    ring_sleepers(host_, &from, 1);
    return has_read;
  }

 private:
  H& host_;
  const PeerView& peers_;
};

}  // namespace rejoin::journal
