// This rank's region of the segment: what of it is kept, and the payload in it. Like everything
// there it outlives the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "journal/host.h"
#include "journal/layout.h"
#include "journal/notices.h"
#include "journal/region_memory.h"
#include "journal/retention.h"
#include "journal/zones.h"

namespace rejoin::journal {

template <class Host>
class Region {
 public:
  Region(Host& host, Notices& notices)
      : host_(host),
        memory_(host, notices, retention_),
        zones_(host, memory_, retention_),
        head_(region_of(host.base(), host.rank())) {}

  RegionHead* head() { return head_; }
  RegionMemory<Host>& memory() { return memory_; }
  Zones<Host>& zones() { return zones_; }

  // Reads the region's words again, after this process slept while another one used the region.
  void rebase() {
    memory_.rebase();
    zones_.rebase();
  }

  // --- What is kept

  const Retention& retention() const { return retention_; }
  // Process images protect the job. Arguments: see Zones.
  void follow_images(ZoneLabels& labels, std::uint64_t snapshot_every) {
    check(host_, retention_.kind() == Retention::Kind::kEverything,
          "snapshots begin to free memory that something else frees: this is a defect of Rejoin");
    zones_.follow_images(labels, snapshot_every);
    retention_.follow_images();
  }
  // The program makes checkpoints: nothing allocated so far is reused, and there are no zones until
  // its first checkpoint.
  void keep_everything() {
    check(host_, retention_.serves_replays(),
          "a full journal begins to serve replays again: this is a defect of Rejoin");
    zones_.keep_all();
    retention_.keep_everything();
  }
  // Payload that is allocated from now on can be freed behind versions.
  void follow_versions() { retention_.follow_versions(); }
  // The journal is full. REQUIRES PeerView::recycles(). Labels the zones in use by label(zone);
  // false: no memory for a label.
  template <class Label>
  bool give_up_replays(Label&& label) {
    // A rank that consumes a message looks at that word without a fence between the two: what such
    // a rank stored before it could see the word is visible before this rank waits for it.
    host_.settle_stores();
    retention_.give_up_replays();
    return zones_.begin_reuse(std::forward<Label>(label));
  }

  // --- Payload. All functions return 0 if there is no more memory

  // Bytes of a result or a message, safe to touch.
  Offset allocate(std::size_t bytes) {
    return retention_.uses_zones() ? zones_.allocate(Use::kResults, bytes)
                                   : memory_.allocate_payload(bytes);
  }
  // Bytes of a message, safe to touch. sent[ranks]: the number of messages sent to each rank, this
  // one included.
  Offset allocate_message(std::size_t bytes, const std::uint64_t* sent) {
    if (retention_.reuses_what_was_read()) [[unlikely]]
      return zones_.allocate_message(bytes, sent);
    return allocate(bytes);
  }
  // Bytes of a large result. Each writer touches its part first (Host::touch), so that members
  // share that work.
  Offset reserve(std::size_t bytes) {
    if (retention_.uses_zones()) return zones_.reserve(Use::kResults, bytes);
    const Offset at = memory_.reserve_payload(bytes);
    if (at != 0) memory_.count(bytes);
    return at;
  }
  // Bytes for the result of a nonblocking operation: allocate() or reserve(), but nothing that lies
  // in a zone whose reuse does not depend on its readers.
  Offset allocate_nonblocking(std::size_t bytes) { return keep(bytes, &Region::allocate); }
  Offset reserve_nonblocking(std::size_t bytes) { return keep(bytes, &Region::reserve); }
  // Bytes of payload allocated so far, provided that no zone was reused.
  std::uint64_t payload_bytes() const { return memory_.payload_reserved() - zones_.unused_bytes(); }

 private:
  Offset keep(std::size_t bytes, Offset (Region::*place)(std::size_t)) {
    if (retention_.reuses_what_was_read() && !breaks(host_, Rule::kKeepNonblockingPayload)) {
      return memory_.allocate_model(bytes);
    }
    const Offset at = (this->*place)(bytes);
    zones_.note_nonblocking();
    return at;
  }

  Host& host_;
  Retention retention_;
  RegionMemory<Host> memory_;
  Zones<Host> zones_;
  RegionHead* head_;
};

}  // namespace rejoin::journal
