// Collectives whose members get different bytes, as messages. Each is an object that advances; its
// loop indices are data members. A Port has
//
//     size(), me()                                   members, and this rank's number
//     Progress send(peer, data, bytes, sent = Sent::kStored)
//     Progress receive(peer, max_bytes, &data, &bytes, to = nullptr)
//
// send() is pending while flow control stops the sender, because receivers are too far behind.
// receive() is pending until the message is there; *data is `to` if that was given and the bytes
// are there already. Either can fail, and the collective then fails.
//
// Buffers are contiguous bytes, and must not change until the collective is done.
//     n  members    S  bytes of a block
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "copy/copy.h"
#include "engine/fold.h"
#include "engine/names.h"
#include "engine/reduction.h"
#include "journal/waiting.h"

namespace rejoin::engine {

// What a port may do with the bytes of a large message, besides storing them.
enum class Sent : std::uint8_t {
  kStored,
  kReadable,  // the receiver passes `to`, and may read the sender's buffer during send()
  kStays,     // likewise, until the collective is done: the buffer does not change before, and this
              // is the last message, so it may be stored while this member receives
};

// The memory of one member's block. A Place (below) is a callable that maps a member's number to
// it; any type with these members will do, and its `put` may unpack a datatype instead of copying.
struct Block {
  std::byte* data;
  std::size_t bytes;  // at most, when receiving

  // Where the bytes may be stored without put(), which then copies nothing. Null: nowhere.
  std::byte* place() const { return data; }
  void put(const std::byte* from, std::size_t size) const {
    if (from != data) copy_payload(data, from, size);
  }
};

// Reduce and Scan send a vector in pieces of this size, each a message of its own, so that one
// member reduces a piece while others store the next. journal::Writing::kPieceBytes is another
// constant: how far the payload of a single message advances between two stores of `written`.
inline constexpr std::size_t kPieceBytes = 256 * 1024;

// Returns the bytes of one piece: whole elements, at least one.
constexpr std::size_t piece_bytes(std::size_t element_bytes) {
  const std::size_t elements = kPieceBytes / element_bytes;
  return (elements > 0 ? elements : 1) * element_bytes;
}

// Root receives block i from member i, into place(i), and puts its own block into its place while
// it waits. 1 step, (n-1) S bytes to the root. own: this member's contribution; null at the root:
// it lies in place already.
template <class Place>
class Gather {
 public:
  Gather(std::uint32_t root, const void* own, std::size_t own_bytes, Place place)
      : root_(root),
        own_(static_cast<const std::byte*>(own)),
        own_bytes_(own_bytes),
        place_(place) {}

  template <class Port>
  Progress advance(Port& port) {
    if (port.me() != root_) return port.send(root_, own_, own_bytes_, Sent::kReadable);
    for (; next_ < port.size(); ++next_) {
      if (next_ == root_) continue;
      const auto to = place_(next_);
      const std::byte* data;
      std::size_t bytes;
      const Progress p = port.receive(next_, to.bytes, &data, &bytes, to.place());
      if (p == Progress::kPending) put_own();
      if (p != Progress::kDone) return p;
      to.put(data, bytes);
    }
    put_own();
    return Progress::kDone;
  }

 private:
  void put_own() {
    if (own_ != nullptr) place_(root_).put(own_, own_bytes_);
    own_ = nullptr;
  }

  std::uint32_t root_;
  const std::byte* own_;
  std::size_t own_bytes_;
  Place place_;
  std::uint32_t next_ = 0;
};

// Root sends block i, at place(i), to member i. 1 step, (n-1) S bytes from the root.
// own: where this member's block goes, with the members of Block; its data is null at the root if
// the root's block stays in place.
template <class Own, class Place>
class Scatter {
 public:
  Scatter(std::uint32_t root, Own own, Place place) : root_(root), own_(own), place_(place) {}

  template <class Port>
  Progress advance(Port& port) {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    if (port.me() != root_) {
      const Progress p = port.receive(root_, own_.bytes, &data, &bytes, own_.place());
      if (p != Progress::kDone) return p;
      own_.put(data, bytes);
    } else {
      for (; next_ < port.size(); ++next_) {
        if (next_ == root_) continue;
        const auto from = place_(next_);
        const Progress p = port.send(next_, from.data, from.bytes, Sent::kReadable);
        if (p != Progress::kDone) return p;
      }
      if (own_.data != nullptr) {
        const auto own = place_(root_);
        own_.put(own.data, own.bytes);
      }
    }
    return Progress::kDone;
  }

 private:
  std::uint32_t root_;
  Own own_;
  Place place_;
  std::uint32_t next_ = 0;
};

// Member i's block out(j) goes to member j's in(i). n-1 messages each, sent before anything is
// received, so `out` and `in` may share memory. stays: they do not, and a block of `out` is the
// same until the collective is done, also when out() is called again: the last message is then
// stored while others are received, and a member's own block is put into its place while it waits.
template <class Out, class In>
class Alltoall {
 public:
  Alltoall(Out out, In in, bool stays) : out_(out), in_(in), stays_(stays) {}

  template <class Port>
  Progress advance(Port& port) {
    const std::uint32_t n = port.size(), me = port.me();
    if (!stays_) put_own(me);
    for (; sent_ < n; ++sent_) {
      const std::uint32_t to = (me + sent_) % n;
      const auto block = out_(to);
      const Sent sent = stays_ && sent_ + 1 == n ? Sent::kStays : Sent::kReadable;
      const Progress p = port.send(to, block.data, block.bytes, sent);
      if (p != Progress::kDone) return p;
    }
    for (; received_ < n; ++received_) {
      const std::uint32_t from = (me + n - received_) % n;
      const std::byte* data;
      std::size_t bytes;
      const auto to = in_(from);
      const Progress p = port.receive(from, to.bytes, &data, &bytes, to.place());
      if (p == Progress::kPending) put_own(me);
      if (p != Progress::kDone) return p;
      to.put(data, bytes);
    }
    put_own(me);
    return Progress::kDone;
  }

 private:
  void put_own(std::uint32_t me) {
    if (has_own_) return;
    const auto own = out_(me);
    in_(me).put(own.data, own.bytes);
    has_own_ = true;
  }

  Out out_;
  In in_;
  const bool stays_;
  bool has_own_ = false;
  std::uint32_t sent_ = 1;
  std::uint32_t received_ = 1;
};

// Message k goes to targets[k], and the message from sources[k] is put into place k: between the
// same two members, the i-th that is sent is the i-th that is received. A member may be its own
// target as often as it is its own source. out(k): what is sent, with the members of Block, valid
// until out() is called again. in: room(k) bytes, and put(k, data, bytes). A member that cannot
// send receives meanwhile.
template <class Out, class In>
class Exchange {
 public:
  using Members = std::span<const std::uint32_t>;
  Exchange(Members targets, Out out, Members sources, In in)
      : targets_(targets), out_(out), sources_(sources), in_(in) {}

  template <class Port>
  Progress advance(Port& port) {
    for (; sent_ < targets_.size(); ++sent_) {
      if (targets_[sent_] == port.me()) continue;
      const auto block = out_(sent_);
      if (port.send(targets_[sent_], block.data, block.bytes) != Progress::kDone) break;
    }
    for (; received_ < sources_.size(); ++received_) {
      if (sources_[received_] == port.me()) {
        while (targets_[own_] != port.me()) ++own_;
        const auto own = out_(own_++);
        in_.put(received_, own.data, own.bytes);
        continue;
      }
      const std::byte* data;
      std::size_t bytes;
      const Progress p = port.receive(sources_[received_], in_.room(received_), &data, &bytes);
      if (p != Progress::kDone) return p;
      in_.put(received_, data, bytes);
    }
    return sent_ == targets_.size() ? Progress::kDone : Progress::kPending;
  }

 private:
  Members targets_;
  Out out_;
  Members sources_;
  In in_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  std::size_t own_ = 0;  // index in `targets` of the next message to itself
};

// Root folds the contributions of all members (engine/fold.h). The vector is cut into pieces, so
// that the root reduces one while the members store the next. `result`: `bytes` at the root; unused
// elsewhere. copy: if result overlaps input, piece_bytes() of other memory. order: [size], null if
// all members are on one node; more: with an order, room for two pieces at the root.
class Reduce {
 public:
  Reduce(std::uint32_t root, const void* input, std::size_t bytes, const Reduction& op,
         void* result, std::byte* copy, const FoldStep* order, std::byte* more)
      : root_(root),
        input_(static_cast<const std::byte*>(input)),
        bytes_(bytes),
        op_(op),
        result_(static_cast<std::byte*>(result)),
        copy_(copy),
        order_(order),
        more_(more),
        piece_(piece_bytes(op.element_bytes)) {}

  template <class Port>
  Progress advance(Port& port) {
    for (; at_ < bytes_ || !begun_; at_ += piece_, folded_ = 0) {
      const std::size_t size = bytes_ - at_ < piece_ ? bytes_ - at_ : piece_;
      const Progress p =
          port.me() == root_ ? fold(port, size) : port.send(root_, input_ + at_, size);
      if (p != Progress::kDone) return p;
      begun_ = true;
    }
    return Progress::kDone;
  }

 private:
  template <class Port>
  Progress fold(Port& port, std::size_t size) {
    const std::uint32_t n = port.size();
    const std::byte* mine = input_ + at_;
    if (folded_ == 0) fold_.begin(op_, size / op_.element_bytes, result_ + at_, more_);
    if (copy_ != nullptr) {
      if (folded_ == 0) copy_payload(copy_, mine, size);
      mine = copy_;
    }
    for (; folded_ < n; ++folded_) {
      const FoldStep step = order_ != nullptr ? order_[folded_] : FoldStep{n - 1 - folded_, 0};
      const std::byte* left = mine;
      std::size_t got = size;
      if (step.member != root_) {
        const Progress p = port.receive(step.member, size, &left, &got);
        if (p != Progress::kDone) return p;
      }
      // A message stays until the next one is received, and this member's contribution all the
      // time. A single contribution is the result.
      const bool combines_at_once = step.member == root_ || n - 2 - folded_ == root_;
      const bool stays = order_ == nullptr && n > 1 && combines_at_once;
      fold_.add(left, !stays, step.closes);
    }
    return Progress::kDone;
  }

  std::uint32_t root_;
  const std::byte* input_;
  std::size_t bytes_;
  const Reduction& op_;
  std::byte* result_;
  std::byte* copy_;
  const FoldStep* order_;
  std::byte* more_;
  std::size_t piece_;
  std::size_t at_ = 0;
  bool begun_ = false;
  std::uint32_t folded_ = 0;
  Fold fold_;
};

// Inclusive prefix along a chain: member i gets c0 op ... op ci. n-1 steps for each piece.
// With `exclusive`, member i gets the prefix before it (member 0: untouched). `result` may be
// `input`. memory: memory_bytes().
class Scan {
 public:
  Scan(const void* input, std::size_t bytes, const Reduction& op, void* result, bool exclusive,
       std::byte* memory)
      : input_(static_cast<const std::byte*>(input)),
        bytes_(bytes),
        op_(op),
        result_(static_cast<std::byte*>(result)),
        exclusive_(exclusive),
        memory_(memory),
        piece_(piece_bytes(op.element_bytes)) {}

  static std::size_t memory_bytes(std::size_t bytes, const Reduction& op, bool exclusive) {
    return exclusive ? std::min(bytes, piece_bytes(op.element_bytes)) : 0;
  }

  template <class Port>
  Progress advance(Port& port) {
    for (; at_ < bytes_ || !begun_; at_ += piece_, is_combined_ = false) {
      const std::size_t size = bytes_ - at_ < piece_ ? bytes_ - at_ : piece_;
      if (const Progress p = advance_piece(port, size); p != Progress::kDone) return p;
      begun_ = true;
    }
    return Progress::kDone;
  }

 private:
  template <class Port>
  Progress advance_piece(Port& port, std::size_t size) {
    const std::uint32_t me = port.me();
    const bool is_last = me + 1 == port.size();
    if (!is_combined_) {
      const std::byte* before = nullptr;
      std::size_t got = 0;
      if (me > 0) {
        const Progress p = port.receive(me - 1, size, &before, &got);
        if (p != Progress::kDone) return p;
      }
      combine(before, size, is_last);
      is_combined_ = true;
    }
    return is_last ? Progress::kDone : port.send(me + 1, prefix_, size);
  }

  // Sets prefix_, and the result.
  void combine(const std::byte* before, std::size_t size, bool is_last) {
    const std::byte* mine = input_ + at_;
    std::byte* result = result_ + at_;
    std::byte* inclusive = exclusive_ ? memory_ : result;
    prefix_ = exclusive_ && before == nullptr ? mine : inclusive;
    if (before != nullptr && !(exclusive_ && is_last)) {
      op_.combine(op_, before, mine, inclusive, size / op_.element_bytes);
    }
    const std::byte* from = exclusive_ ? before : before == nullptr ? mine : result;
    if (from != nullptr && from != result) copy_payload(result, from, size);
  }

  const std::byte* input_;
  std::size_t bytes_;
  const Reduction& op_;
  std::byte* result_;
  bool exclusive_;
  std::byte* memory_;
  std::size_t piece_;
  std::size_t at_ = 0;
  bool begun_ = false;
  bool is_combined_ = false;           // this piece is
  const std::byte* prefix_ = nullptr;  // what the next member gets of it
};

// The same with other messages: each member sends its contribution to all members after it, before
// it receives anything, and folds the contributions of those before it, in the same order. n-1
// messages of the whole vector. `result` may be `input`. memory: memory_bytes().
class ScanAtOnce {
 public:
  ScanAtOnce(const void* input, std::size_t bytes, const Reduction& op, void* result,
             bool exclusive, std::byte* memory)
      : input_(static_cast<const std::byte*>(input)),
        bytes_(bytes),
        op_(op),
        result_(static_cast<std::byte*>(result)),
        exclusive_(exclusive),
        left_(memory),
        right_(memory + vector_bytes(bytes)) {}

  static std::size_t memory_bytes(std::size_t bytes, const Reduction&, bool) {
    return 2 * vector_bytes(bytes);
  }

  template <class Port>
  Progress advance(Port& port) {
    for (; behind_ < port.size(); ++behind_) {
      if (behind_ <= port.me()) continue;
      const Progress p = port.send(behind_, input_, bytes_);
      if (p != Progress::kDone) return p;
    }
    for (; before_ < port.me(); ++before_) {
      const std::byte* data;
      std::size_t bytes;
      const Progress p = port.receive(before_, bytes_, &data, &bytes);
      if (p != Progress::kDone) return p;
      fold(before_, data, bytes);
    }
    if (!exclusive_) fold(port.me(), input_, bytes_);
    if (port.me() > 0 || !exclusive_) copy_payload(result_, left_, bytes_);
    return Progress::kDone;
  }

 private:
  static std::size_t vector_bytes(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  // left_ := left_ op the contribution of `member`.
  void fold(std::uint32_t member, const std::byte* contribution, std::size_t bytes) {
    copy_payload(right_, contribution, bytes);
    if (member > 0) op_.combine(op_, left_, right_, right_, bytes / op_.element_bytes);
    std::swap(left_, right_);
  }

  const std::byte* input_;
  std::size_t bytes_;
  const Reduction& op_;
  std::byte* result_;
  bool exclusive_;
  std::byte* left_;
  std::byte* right_;
  std::uint32_t behind_ = 0;
  std::uint32_t before_ = 0;
};

}  // namespace rejoin::engine
