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

  // Lends `to` for `bytes` of a message, or of a departure that was said to come, unless another
  // thread has lent something. `message`: as in Loan.
  void begin_message(Offset message, Offset at, std::byte* to, std::uint64_t bytes) {
    loan_ = {at, to, bytes};
    loan_.message = message;
    lent_ = host_.receive_to(&loan_);
  }
  void begin_ahead(const Ahead& ahead, std::byte* to, std::uint64_t bytes) {
    loan_ = {ahead.at, to, bytes};
    loan_.incarnation = ahead.incarnation;
    lent_ = host_.receive_to(&loan_);
  }
  void end() {
    if (lent_) host_.receive_to(nullptr);
    lent_ = false;
    loan_ = {};
  }
  bool is_lent() const { return lent_; }

  // Calls copy(begin, end) for what of bytes [begin, end) at `at` was not written to the buffer.
  // `incarnation`: of the rank that has given the departure; 0: it is a message. Another one than
  // that of which bytes came ahead may have given others.
  template <class Copy>
  void for_rest(Offset at, std::uint64_t begin, std::uint64_t end, std::uint32_t incarnation,
                Copy&& copy) const {
    const bool is_it = loan_.at == at && loan_.incarnation == incarnation;
    const std::uint64_t from = is_it ? std::clamp(loan_.from, begin, end) : end;
    const std::uint64_t to = is_it ? std::clamp(loan_.to, from, end) : end;
    if (from > begin) copy(begin, from);
    if (end > to) copy(to, end);
  }

 private:
  Host& host_;
  Loan loan_;
  bool lent_ = false;
};

}  // namespace rejoin::journal
