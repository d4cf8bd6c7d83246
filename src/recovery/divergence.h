// How a replay that differs from the first execution is reported.
#pragma once

#include <cstring>

#include "journal/host.h"
#include "journal/own.h"
#include "wire/messages.h"

namespace rejoin::recovery {

template <journal::Host H>
class Divergence {
 public:
  explicit Divergence(H& host) : host_(host), header_(journal::job_of(host)) {}

  // Whether the first divergence ends the job (--on-divergence stop).
  bool stops() const { return header_->stop_on_divergence != 0; }

  // Ends the job with `text`. With --on-divergence warn, sends the first text of this process as a
  // notice and returns.
  void report(const char* text) {
    if (stops()) host_.stop(text);
    if (!reported_) host_.tell(wire::MessageType::kNotice, 0, 0, text, std::strlen(text));
    reported_ = true;
  }

 private:
  H& host_;
  const journal::SegmentHeader* header_;
  bool reported_ = false;
};

}  // namespace rejoin::recovery
