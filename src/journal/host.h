// What journal, engine and recovery need of the operating system and of the agent.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "journal/layout.h"
#include "journal/payload_stores.h"
#include "journal/step.h"
#include "wire/messages.h"

namespace rejoin::journal {

// Whether a process can be frozen as an image.
enum class MayFreeze : std::uint8_t { kYes, kNotNow, kNo };
enum class Frozen : std::uint8_t {
  kNot,     // there is no image
  kGoesOn,  // there may be one; this is the process that it is of
  kWoken,   // this is the image, woken as the rank's next incarnation
};

// Two of them: ShmHost (transport/shm) maps a segment and sleeps on futexes; SimHost
// (transport/sim) yields to a scheduler at every step.
template <class H>
concept Host = requires(H& host, const H& constant, std::byte* begin, std::size_t bytes,
                        std::uint32_t rank, unsigned turn, const void* address, ModuleEntry* module,
                        std::uint64_t* place, const char* text, char* why, wire::MessageType type,
                        std::uint64_t number) {
  // The segment, and who I am.
  { constant.base() } -> std::same_as<std::byte*>;
  { constant.rank() } -> std::same_as<std::uint32_t>;
  // A place where the simulator may interfere; nothing on a real host.
  host.step(Step{});
  // The two store-load barriers of a doorbell, see waiting.h.
  host.fence_published();
  host.fence_announced();
  // After a fruitless look behind fence_announced(): true where fence_published() is none, once
  // every word whose publisher did not see me asleep is visible, or my bell rang: look again.
  { host.settle() } -> std::same_as<bool>;
  // Called between two looks while waiting; false: time to sleep.
  { host.poll(turn) } -> std::same_as<bool>;
  // Before another look at a word that its owner is writing all the time: looks cost it time.
  host.give_way();
  // Waits for my bell; spurious returns are allowed.
  host.sleep();
  // Waits a moment for what the agent does, which rings no bell; false: it has taken too long.
  { host.wait_for_agent(turn) } -> std::same_as<bool>;
  // Sets a rank's bell and wakes it.
  host.ring(rank);
  // Makes shared memory safe to touch; false: there is no more.
  { host.back(begin, bytes) } -> std::same_as<bool>;
  // The same for payload in any rank's region that its owner only reserved; cheap for what this
  // process has touched lately.
  { host.touch(rank, begin, bytes) } -> std::same_as<bool>;
  // Bytes that a collective's sender may be ahead of its receivers.
  { constant.ahead_bytes() } -> std::same_as<std::size_t>;
  // How this rank writes large payload.
  { host.payload_stores() } -> std::same_as<PayloadStores&>;
  // Which loaded module an address of code lies in, and where in its file.
  host.locate(address, module, place);
  // A clock that only goes forward, for diagnostics; the program does not see it.
  { host.now_ns() } -> std::same_as<std::uint64_t>;
  // Whether an image of this process can be made now. kYes: what lies outside of the rank's rooms
  // is ready for it. kNo: the agent was told why.
  { host.may_freeze(number) } -> std::same_as<MayFreeze>;
  // Whether images of this process are possible, now or when something that passes has passed.
  // False: why not, as the predicate of a sentence.
  { host.can_be_frozen(why, bytes) } -> std::same_as<bool>;
  // Makes the image with this number, and goes on without waiting for it.
  { host.freeze(number) } -> std::same_as<Frozen>;
  // SIGKILL to myself (fault injection).
  host.die();
  // The job cannot go on: waits to be killed (without an agent: exits).
  host.stop(text);
  // One message to the agent.
  host.tell(type, std::int32_t{}, std::uint64_t{}, text, bytes);
};

// An invariant, checked in release builds too: a journal that breaks it must not be trusted.
template <class H>
inline void check(H& host, bool holds, const char* invariant) {
  if (!holds) [[unlikely]]
    host.stop(invariant);
}

}  // namespace rejoin::journal
