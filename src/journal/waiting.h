// Waiting and waking: spin briefly, then sleep, each rank only on its own doorbell, which peers
// ring only if it sleeps. PROTOCOL.md, "Doorbells".
#pragma once

#include <cstdint>

#include "journal/host.h"
#include "journal/layout.h"
#include "journal/step.h"

namespace rejoin::journal {

// The result of advancing an operation.
enum class Progress : std::uint8_t {
  kPending,  // it waits for others; nothing more can be done now
  kDone,
  kFailed,
};

// wait_until(), after its first look.
template <class H, class Ready>
[[gnu::noinline]] void wait_longer(H& host, Ready& ready) {
  constexpr unsigned kThoroughEvery = 32;
  OwnerWord<std::uint8_t>& asleep = header_of(host.base())->asleep[host.rank()];
  AnyWord<std::uint32_t>& bell = control_of(host.base(), host.rank())->bell;
  for (unsigned turn = 0;;) {
    if (!host.poll(turn)) {
      bell.store(host, Step::kSame, 0, std::memory_order_relaxed);
      asleep.store(host, Step::kAnnounce, 1);  // after the bell: no later ring is cleared
      host.fence();                            // before the last look
      // Asleep stays announced between two looks: a publisher after the first look sees it.
      const bool done = ready(true) || (host.settle() && ready(true));
      // A process that was woken as an image meanwhile is not announced, and looks again.
      if (!done && asleep.load(std::memory_order_relaxed) != 0) host.sleep();
      asleep.store(host, Step::kSame, 0, std::memory_order_relaxed);
      if (done) return host.waited();
      turn = 0;
    }
    ++turn;
    if (ready(turn % kThoroughEvery == kThoroughEvery - 1)) return host.waited();
  }
}

// Looks with `ready(thorough)` until it is true. While spinning, only every 32nd look is thorough
// (records of other members, their positions); the look before sleep always is.
template <class H, class Ready>
[[gnu::always_inline]] inline void wait_until(H& host, Ready&& ready) {
  if (!ready(false)) wait_longer(host, ready);
}

// How soon ranks of other nodes have to see what was published. Ranks of this node see it at once.
enum class Haste : std::uint8_t {
  kNow,    // they wait for it
  kLater,  // they look for it when they have waited for long, or are far ahead: the relay carries
           // it
};

// After a publish: wakes those of `count` world ranks that sleep.
template <Haste haste = Haste::kNow, class H>
[[gnu::always_inline]] inline void ring_sleepers(H& host, const std::uint32_t* world,
                                                 std::uint32_t count) {
  host.fence_published();  // before reading which ranks sleep
  host.step(Step::kRing);
  const SegmentHeader* h = header_of(host.base());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t r = world[i];
    if (h->asleep[r].load(std::memory_order_relaxed) == 0 || r == host.rank()) continue;
    if (haste == Haste::kNow || host.is_near(r)) host.ring(r);
  }
}

}  // namespace rejoin::journal
