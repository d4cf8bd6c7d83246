#include "launcher/agent/standstill.h"

namespace rejoin::launcher {
namespace {

using Presence = RankLook::Presence;

// A sleep ends after 200 ms to look again.
constexpr std::uint64_t kLongEnoughNs = 900'000'000;
constexpr std::uint64_t kTooLongAgoNs = 1'500'000'000;
constexpr int kEnoughLooks = 4;

std::string motion(const RankLook& look) {
  if (look.presence == Presence::kAbsent) return "is not running yet, or again";
  if (look.presence == Presence::kLeft) return {};
  if (!look.asleep) return "does not sleep";
  if (look.bell) return "has been rung";
  if (look.threads_may_call) return "has threads that may call MPI";
  if (look.process_state != 'S') return "is stopped, or about to run";
  return {};
}

}  // namespace

std::string why_not_still(const Look& look) {
  bool somebody = false;
  for (std::size_t r = 0; r < look.size(); ++r) {
    const std::string text = motion(look[r]);
    if (!text.empty()) return "rank " + std::to_string(r) + " " + text;
    somebody = somebody || look[r].presence == Presence::kPresent;
  }
  return somebody ? "" : "no rank waits";
}

std::string Standstill::judge(const Look& look, std::uint64_t now_ns) {
  // A rank that is looking again at this moment does not discard the earlier looks.
  if (std::string why = why_not_still(look); !why.empty()) return why;
  if (looks_ == 0 || look != first_ || now_ns > newest_ns_ + kTooLongAgoNs) {
    first_ = look;
    first_ns_ = now_ns;
    looks_ = 0;
  }
  newest_ns_ = now_ns;
  if (++looks_ < kEnoughLooks || now_ns < first_ns_ + kLongEnoughNs) return "not for long enough";
  return {};
}

}  // namespace rejoin::launcher
