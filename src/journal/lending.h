// The program's buffer, lent for what comes from another node: it is written there as it comes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/carrier.h"
#include "journal/layout.h"

namespace rejoin::journal {

template <class Host>
class Lending {
 public:
  explicit Lending(Host& host) : host_(host) {}
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending() { end(); }

  // Lends `to` for `bytes` of rank `from` that will lie at `at`, unless another thread has lent
  // something. `message`: as in Loan.
  void begin(Offset at, std::byte* to, std::uint64_t bytes, std::uint32_t from,
             Offset message = 0) {
    loan_ = {at, to, bytes};
    loan_.message = message;
    from_ = from;
    aheads_ = host_.aheads(from);
    lent_ = host_.receive_to(&loan_);
  }
  void end() {
    if (lent_) host_.receive_to(nullptr);
    lent_ = false;
    loan_ = {};
  }
  bool is_lent() const { return lent_; }

  // Calls copy(begin, end) for what of bytes [begin, end) at `at` was not written to the buffer.
  // is_ahead: they have come before their departure. If their rank has died meanwhile, its next
  // incarnation may have sent other bytes, and another process may have received them.
  template <class Copy>
  void for_rest(Offset at, std::uint64_t begin, std::uint64_t end, bool is_ahead,
                Copy&& copy) const {
    const bool is_it = loan_.at == at && (!is_ahead || aheads_ == host_.aheads(from_));
    const std::uint64_t from = is_it ? std::clamp(loan_.from, begin, end) : end;
    const std::uint64_t to = is_it ? std::clamp(loan_.to, from, end) : end;
    if (from > begin) copy(begin, from);
    if (end > to) copy(to, end);
  }

 private:
  Host& host_;
  Loan loan_;
  bool lent_ = false;
  std::uint32_t from_ = 0;
  std::uint64_t aheads_ = 0;  // of that rank's node when the buffer was lent
};

}  // namespace rejoin::journal
