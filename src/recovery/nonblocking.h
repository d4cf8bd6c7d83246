// Nonblocking operations: one call enters them, another one reports that they are over, and every
// call between the two that waits or asks advances them. PROTOCOL.md, "Nonblocking operations".
#pragma once

#include <cstdint>

#include "journal/waiting.h"

namespace rejoin::recovery {

// The operation that a rank is inside of, as its diagnostics position shows it.
struct Standing {
  std::uint64_t context = 0;  // 0: none of a communicator
  std::uint64_t sequence = 0;
  std::uint32_t call = 0;
};

// A nonblocking operation of any kind. Memory of the caller's; it must not move until it is over.
class Nonblocking {
 public:
  Nonblocking() = default;
  Nonblocking(const Nonblocking&) = delete;
  Nonblocking& operator=(const Nonblocking&) = delete;

  bool is_over() const { return over_; }
  const Standing& standing() const { return standing_; }

 protected:
  ~Nonblocking() = default;

  // Has the contract of advance() of an operation. When it returns kDone, the program's buffers
  // contain the result.
  virtual journal::Progress advance(bool thorough) = 0;

  // Called when the operation has been entered; `s` is its position.
  void entered(const Standing& s) {
    standing_ = s;
    over_ = false;
  }

 private:
  friend class Outstanding;

  bool go_on(bool thorough) {
    over_ = advance(thorough) != journal::Progress::kPending;
    return over_;
  }

  Standing standing_;
  Nonblocking* next_ = nullptr;
  bool over_ = false;
};

// A rank's operations that are not over, in the order in which they were entered. Those of one
// communicator complete in that order, too, whichever the program asks about first.
class Outstanding {
 public:
  bool any() const { return first_ != nullptr; }

  // Starts an operation that was just entered: it goes on as far as it can, and stays in the list
  // until it is over. Not to be called from within advance().
  void start(Nonblocking& op, bool at_once) {
    if (at_once && op.go_on(false)) return;
    op.next_ = nullptr;
    *last_ = &op;
    last_ = &op.next_;
  }

  // Advances all of them. True: some are over now.
  bool advance(bool thorough) {
    bool any_over = false;
    for (Nonblocking** link = &first_; *link != nullptr;) {
      Nonblocking* op = *link;
      if (!op->go_on(thorough)) {
        link = &op->next_;
        continue;
      }
      *link = op->next_;
      if (last_ == &op->next_) last_ = link;
      any_over = true;
    }
    return any_over;
  }

  // Returns the oldest of a communicator; null: there is none.
  const Nonblocking* oldest_of(std::uint64_t context) const {
    const Nonblocking* op = first_;
    while (op != nullptr && op->standing_.context != context) op = op->next_;
    return op;
  }

 private:
  Nonblocking* first_ = nullptr;
  Nonblocking** last_ = &first_;
};

}  // namespace rejoin::recovery
