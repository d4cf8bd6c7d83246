// A large message while its sender copies it to the journal piece by piece. Its receiver may read
// the pieces, or the sender's buffer (direct.h). Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "copy/copy.h"
#include "journal/direct.h"
#include "journal/host.h"
#include "journal/layout.h"
#include "journal/payload_stores.h"
#include "journal/rules.h"
#include "journal/waiting.h"

namespace rejoin::journal {

template <Host H>
class Writing {
 public:
  // Bytes of a message that become visible together. Larger messages are read while being written.
  // The pieces of engine::kPieceBytes, into which collectives cut vectors, are whole messages.
  static constexpr std::uint64_t kPieceBytes = 16 * 1024;
  // Pieces that are carried to another node are larger: each takes system calls. Messages up to
  // kFarWholeBytes are whole.
  static constexpr std::uint64_t kFarWholeBytes = 64 * 1024;
  static constexpr std::uint64_t kFarPieceBytes = 128 * 1024;
  // The receiver has the bytes from elsewhere, so it does not wait for single pieces.
  static constexpr std::uint64_t kUnreadPieceBytes = 256 * 1024;

  // Lets the receiver read the bytes at `data`, which must not change while the object exists. A
  // former incarnation may have written some of them.
  Writing(H& host, std::uint32_t to, ChannelEntry& entry, const std::byte* data)
      : host_(host), to_(to), near_(host.is_near(to)), entry_(entry), data_(data) {
    const auto place =
        static_cast<Offset>(reinterpret_cast<const std::byte*>(&entry) - host.base());
    if (near_ && entry.bytes <= DirectRead<H>::kMost) open_.emplace(host, &to_, 1, place, data);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  bool is_over() const { return written() >= entry_.bytes; }
  // Whether the receiver reads the sender's buffer, or has read it.
  bool is_read() const { return open_ && open_->is_read(); }
  // Copies the next piece. REQUIRES that the message is posted, and !is_over().
  void advance() {
    const std::uint64_t at = written();
    // Another node may have the bytes before the journal: they are sent from where they are.
    if (!near_ && !is_lent_) {
      loan_ = {entry_.value, const_cast<std::byte*>(data_), entry_.bytes};
      is_lent_ = host_.send_from(&loan_);
      if (is_lent_) ring_receiver();
    }
    const bool read = is_read();
    const std::uint64_t most = read || is_lent_ ? kUnreadPieceBytes
                               : near_          ? kPieceBytes
                                                : kFarPieceBytes;
    const std::uint64_t piece = std::min<std::uint64_t>(entry_.bytes - at, most);
    std::byte* place = host_.base() + entry_.value + at;
    host_.step(Step::kPayload);
    if (near_ || is_lent_) {
      host_.payload_stores().copy(place, data_ + at, piece, read);
    } else {  // it is read from the cache as it is sent
      copy_payload(place, data_ + at, piece);
    }
    entry_.written.store(host_, Step::kWritten, at + piece);
    if (is_over() && is_lent_) host_.send_from(nullptr);
    if (!near_ || is_over()) ring_receiver();
  }

 private:
  std::uint64_t written() const { return entry_.written.load(std::memory_order_relaxed); }
  void ring_receiver() {
    if (!breaks(host_, Rule::kRingAfterMessage)) ring_sleepers(host_, &to_, 1);
  }

  H& host_;
  const std::uint32_t to_;
  const bool near_;
  bool is_lent_ = false;
  Loan loan_ = {};
  ChannelEntry& entry_;
  const std::byte* const data_;
  std::optional<OpenBuffer<H>> open_;  // its destructor waits for a receiver that still reads
};

}  // namespace rejoin::journal
