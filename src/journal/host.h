// What journal, engine and recovery need of the operating system and of the agent.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "journal/carrier.h"
#include "journal/layout.h"
#include "journal/payload_stores.h"
#include "journal/step.h"
#include "wire/messages.h"

namespace rejoin::journal {

// Whether a process can be frozen as an image.
enum class MayFreeze : std::uint8_t { kYes, kNotNow, kNo };
enum class Frozen : std::uint8_t {
  kNot,     // there is no image
  kGoesOn,  // there may be one; this is the process that was imaged
  kWoken,   // this is the image, woken as the rank's next incarnation
};

// Bytes in the memory of another process of this machine. A process that was given the same number
// since does not have `check` at that address.
struct OpenedBytes {
  std::uint64_t at;
  std::uint64_t process;
  std::uint64_t check_at;
  std::uint64_t check;
};

// Two types model it: ShmHost (transport/shm) maps a segment and sleeps on futexes; SimHost
// (transport/sim) yields to a scheduler at every step.
template <class H>
concept Host = requires(H& host, const H& constant, std::byte* begin, std::size_t bytes,
                        std::uint32_t rank, unsigned turn, const void* address, ModuleEntry* module,
                        std::uint64_t* place, const char* text, char* why, wire::MessageType type,
                        std::uint64_t number, std::atomic<std::uint64_t>& word,
                        OpenedBytes& opened) {
  // The segment, and this rank's number.
  { constant.base() } -> std::same_as<std::byte*>;
  { constant.rank() } -> std::same_as<std::uint32_t>;
  // A point where the simulator may interfere; a no-op on a real host.
  host.step(Step{});
  // The writer's seam of shared words (journal/shared.h).
  { H::writes(Writer::kOwner) } -> std::same_as<bool>;
  host.store(word, number, std::memory_order_release);
  host.drain();
  // Called before plain stores to memory that others may read.
  host.plain_store();
  // A full fence: between a store and a load, where another process does the same with the two
  // words exchanged, so that one of the two sees the other's store.
  host.fence();
  // The publisher's such fence of a doorbell, see waiting.h.
  host.fence_published();
  // Called after a fruitless look behind fence(). Returns true where fence_published() is
  // a no-op, once every word is visible that was published without seeing this rank asleep, or once
  // its bell rang: the caller looks again.
  { host.settle() } -> std::same_as<bool>;
  // Waits until everything that other processes have stored so far is visible. Takes about a
  // millisecond.
  host.settle_stores();
  // Called between two looks while waiting; false: time to sleep.
  { host.poll(turn) } -> std::same_as<bool>;
  // Called when a wait, or a look that was not followed by another one, is over.
  host.waited();
  // Called before another look at a word that its owner keeps writing: each look delays the owner.
  host.give_way();
  // Waits for this rank's bell; may return spuriously.
  host.sleep();
  // Waits a moment for the agent, which rings no bell; false: it has taken too long.
  { host.wait_for_agent(turn) } -> std::same_as<bool>;
  // Sets a rank's bell and wakes it.
  host.ring(rank);
  // See Carrier. False: nothing is sent from there, or received there.
  { host.send_from(static_cast<const Loan*>(nullptr)) } -> std::same_as<bool>;
  { host.receive_to(static_cast<Loan*>(nullptr)) } -> std::same_as<bool>;
  { host.ahead(rank, number) } -> std::same_as<Ahead>;
  // Whether the rank uses the same segment, so that what is published need not be carried to it.
  { host.is_near(rank) } -> std::same_as<bool>;
  // Where another process finds bytes of this one's. False: it is not allowed to.
  { host.open(static_cast<const std::byte*>(nullptr), &opened) } -> std::same_as<bool>;
  // Whether this process may read such bytes, as far as is known.
  { constant.may_read_others() } -> std::same_as<bool>;
  // Reads them. False: not all of them could be read, or that process has ended.
  { host.read_opened(opened, begin, bytes) } -> std::same_as<bool>;
  // Makes shared memory safe to touch; false: no more memory.
  { host.back(begin, bytes) } -> std::same_as<bool>;
  // The same for payload in any rank's region that its owner only reserved; cheap for memory that
  // this process has touched lately.
  { host.touch(rank, begin, bytes) } -> std::same_as<bool>;
  // Bytes that a collective's sender may be ahead of its receivers.
  { constant.ahead_bytes() } -> std::same_as<std::size_t>;
  // How this rank writes large payload.
  { host.payload_stores() } -> std::same_as<PayloadStores&>;
  // Finds the loaded module that contains an address of code, and the place in the module's file.
  host.locate(address, module, place);
  // A clock that only goes forward, for diagnostics; the program does not see it.
  { host.now_ns() } -> std::same_as<std::uint64_t>;
  // Whether an image of this process can be made now. kYes: everything outside of the rank's rooms
  // is ready for it. kNo: the agent has been given the reason.
  { host.may_freeze(number) } -> std::same_as<MayFreeze>;
  // Whether images of this process are possible, now or after a temporary obstacle has passed.
  // False: `why` is the reason, as the predicate of a sentence.
  { host.can_be_frozen(why, bytes) } -> std::same_as<bool>;
  // Makes the image with this number, and continues without waiting for it.
  { host.freeze(number) } -> std::same_as<Frozen>;
  // SIGKILL to this process (fault injection).
  host.die();
  // The job cannot go on: waits to be killed (without an agent: exits).
  host.stop(text);
  // Sends one message to the agent.
  host.tell(type, std::int32_t{}, std::uint64_t{}, text, bytes);
};

// An invariant, checked in release builds too: a journal that breaks it must not be trusted.
template <class H>
inline void check(H& host, bool holds, const char* invariant) {
  if (!holds) [[unlikely]]
    host.stop(invariant);
}

}  // namespace rejoin::journal
