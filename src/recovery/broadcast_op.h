// One broadcast. The root's published record is the broadcast: the root does not wait for the other
// members, but for readers that are far behind.
//
// If the members are on nodes that share only messages (kSpans), the root gives the bytes to the
// leaders of the other nodes, each of which makes the record of its node. What it has given is the
// broadcast then, with or without the root's record. A large one is scattered (scattered.h).
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "copy/copy.h"
#include "engine/broadcast.h"
#include "journal/lending.h"
#include "recovery/node_exchange.h"
#include "recovery/replicated.h"
#include "recovery/scattered.h"

namespace rejoin::recovery {

template <journal::Host H, bool kSpans = false>
class BroadcastOp final : public Replicated<H> {
 public:
  // Enters; see Replicated.
  BroadcastOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
              Outcome* outcome, bool nonblocking = false)
      : Replicated<H>(ops, comm, call, spec, outcome, nonblocking, false),
        root_(static_cast<std::uint32_t>(call.signature.root)),
        source_(source_of(comm, e_.sequence, root_)),
        lending_(ops.host) {
    if constexpr (kSpans) {
      if (is_scattered()) scattered_.emplace(ops, comm, root_);
    }
  }

  // Goes on as far as it can without waiting. thorough: looks at everything that may end the wait,
  // not only at what is most likely to. Not to be called again once it is done or has failed.
  Progress advance(bool thorough) {
    if (this->was_woken()) [[unlikely]] {
      if (const Progress p = this->begin_again(); p != Progress::kPending) return p;
      c_.root_tail = 0;
      if constexpr (kSpans) {
        lending_.end();
        if (scattered_) scattered_->begin_again();
      }
    }
    if (!begun_) {
      if (const Progress p = begin(); p != Progress::kPending || this->was_woken()) return p;
      begun_ = true;
    }
    if (c_.members.rank == root_) return advance_root(thorough);
    if constexpr (kSpans) {
      if (c_.members.rank == source_) return advance_leader(thorough);
    }
    return advance_receiver(thorough);
  }

 private:
  using Replicated<H>::ops_, Replicated<H>::c_, Replicated<H>::e_, Replicated<H>::spec_;
  using Replicated<H>::nonblocking_;

  [[gnu::always_inline]] Progress begin() {
    const Progress p = this->look_up([](bool) {});
    if (p != Progress::kPending || this->was_woken()) return p;
    this->prepare_input();
    if (kSpans && c_.members.rank == root_ && this->may_repeat()) [[unlikely]]
      ops_.repeats_contribution(c_, e_, &this->fingerprint_);
    if (c_.members.rank == root_ && !nonblocking_) ops_.repetition.before_anything_new(e_.call);
    return Progress::kPending;
  }

  // --- The root

  [[gnu::always_inline]] Progress advance_root(bool thorough) {
    H& host = ops_.host;
    if (!readers_are_near() || !readers_have_room()) return wait_for_readers(thorough);
    if (!this->is_next()) return Progress::kPending;
    if (nonblocking_ && (!ops_.repetition.may_do_new() || this->was_woken()))
      return Progress::kPending;
    if constexpr (kSpans) {
      if (const Progress p = repeat_given(); p != Progress::kPending) return p;
    }
    std::uint64_t value;
    if (spec_.result_bytes < engine::kPipelinedBytes) {
      host.step(Step::kPayload);
      value = ops_.journal.store(spec_.input, spec_.result_bytes,
                                 [this](std::size_t bytes) { return this->allocate(bytes); });
    } else {
      value = kSpans ? this->allocate(spec_.result_bytes) : this->reserve(spec_.result_bytes);
      if (journal::breaks(host, Rule::kPayloadBeforeRecord)) this->commit(value);
      publish(value);
    }
    if constexpr (kSpans) {
      this->note_contribution();
      Departures<H>(ops_, c_, e_)
          .give(journal::Part::kNode, value, spec_.result_bytes, this->fingerprint_, division());
    }
    ops_.execution.inside();
    if (this->is_next()) this->commit(value);
    this->give(value, false);
    return this->end(Status::kOk);
  }

  void publish(std::uint64_t value) {
    const auto chunks = [&](journal::Members& readers) {
      if (!engine::publish_chunks(ops_.host, readers, e_.sequence, ops_.execution.incarnation(),
                                  spec_.input, spec_.result_bytes, value)) {
        ops_.journal.out_of_memory();
      }
    };
    if constexpr (kSpans) {
      Departures<H>(ops_, c_, e_)
          .put(journal::Part::kNode, value, static_cast<const std::byte*>(spec_.input),
               spec_.result_bytes, division(), [&] { chunks(c_.span->near); });
    } else {
      chunks(c_.members);
    }
  }

  // --- Other nodes

  // The member that this rank has the record from: the root, or the leader of this rank's node.
  static std::uint32_t source_of(const Comm<H>& c, std::uint64_t sequence, std::uint32_t root) {
    if constexpr (kSpans) {
      if (c.span->node[root] != c.span->mine) return c.span->leader(c.span->mine, sequence);
    }
    return root;
  }
  // The root: a former incarnation may have given the bytes, and died without a record. They are
  // the outcome, also at the root. kPending: it has not.
  Progress repeat_given() {
    const auto given = Departures<H>(ops_, c_, e_).given(journal::Part::kNode, this->fingerprint_);
    if (!given) return Progress::kPending;
    this->outcome_.replaces_input = true;
    ops_.execution.inside();
    this->commit(given->value);
    this->give(given->value, false);
    return this->end(Status::kOk);
  }
  // Members with another length, or another root, are in another operation: their chains differ.
  bool is_scattered() const {
    return !nonblocking_ && engine::is_scattered(c_.span->nodes, spec_.result_bytes);
  }
  Division division() const {
    return scattered_ ? Scattered<H>::of_root(*c_.span, root_) : Division{};
  }
  // For the slice that the leader gives.
  bool slice_has_room() {
    if (!scattered_ || journal::breaks(ops_.host, Rule::kRoomForSlice)) return true;
    const std::size_t bytes = scattered_->to_give(spec_.result_bytes);
    return bytes == 0 || ops_.zones.has_room(c_, e_.sequence, bytes);
  }
  Progress advance_scattered(bool thorough) {
    Departures<H> departures(ops_, c_, e_);
    const Progress p = scattered_->advance(
        departures, spec_.result_bytes, static_cast<std::byte*>(spec_.early), thorough,
        [this](std::size_t bytes) { return this->allocate(bytes); },
        [this] { return !this->woken_before_taking(); });
    if (p == Progress::kFailed) return this->mismatch(departures.other());
    if (p == Progress::kPending && this->was_woken()) return p;
    if (p == Progress::kPending) {
      const bool at_root = journal::breaks(ops_.host, Rule::kLooksAtLeader);
      const std::uint32_t other = at_root ? root_ : scattered_->waits_for(departures);
      return thorough ? this->look_for_disagreement(other) : p;
    }
    if (this->woken_before_taking()) [[unlikely]]
      return Progress::kPending;
    ops_.execution.inside();
    this->commit(scattered_->value());
    this->give(scattered_->value(), spec_.early != nullptr);
    return this->end(Status::kOk);
  }
  Progress advance_leader(bool thorough) {
    if (!readers_are_near() || !slice_has_room()) return wait_for_readers(thorough);
    if (!this->is_next()) return Progress::kPending;
    if (scattered_) return advance_scattered(thorough);
    Departures<H> departures(ops_, c_, e_);
    journal::Departed d;
    const Progress p =
        departures.look(root_, journal::Part::kNode, spec_.result_bytes, thorough, &d);
    if (p == Progress::kFailed) return this->mismatch(departures.other());
    if (p == Progress::kPending) {
      lend(departures);
      return thorough ? this->look_for_disagreement(root_) : Progress::kPending;
    }
    if (this->woken_before_taking()) [[unlikely]]
      return Progress::kPending;
    // The bytes stay where they are, in this node's copy of the root's region, as long as the
    // root's do: until the marks of all members have passed the operation.
    const bool early = is_early();
    if (early) {
      const std::byte* from = departures.bytes_of(d);
      std::byte* const to = static_cast<std::byte*>(spec_.early);
      lending_.for_rest(d.value, 0, spec_.result_bytes, d.incarnation,
                        [&](std::size_t begin, std::size_t end) {
                          copy_payload(to + begin, from + begin, end - begin);
                        });
      lending_.end();
    }
    ops_.execution.inside();
    this->commit(d.value);
    this->give(d.value, early);
    return this->end(Status::kOk);
  }
  // Whether the leader of a node has the bytes received to the program's buffer, too.
  bool is_early() const {
    return spec_.early != nullptr && !nonblocking_ && spec_.result_bytes >= kLeastEarly;
  }
  void lend(Departures<H>& departures) {
    if (!is_early() || lending_.is_lent()) return;
    const journal::Ahead ahead = departures.ahead(root_, journal::Part::kNode);
    if (ahead.at == 0) return;
    lending_.begin_ahead(ahead, static_cast<std::byte*>(spec_.early), spec_.result_bytes);
  }

  [[gnu::noinline]] Progress wait_for_readers(bool thorough) {
    ops_.host.step(Step::kFar);
    if (!nonblocking_) ops_.host.give_way();
    if (!thorough || journal::breaks(ops_.host, Rule::kFarSenderLooks)) return Progress::kPending;
    return this->look_for_disagreement(kNobody);
  }
  // With a full journal records wrap: also those of nonblocking operations.
  bool readers_are_near() {
    const bool wraps = ops_.zones.are_reused();
    if (nonblocking_ && !wraps) return true;
    return ops_.comms.all_within(
        c_, e_.sequence,
        nonblocking_
            ? journal::kReadersWithin
            : engine::operations_ahead(ops_.host, spec_.result_bytes, wraps, may_be_read()));
  }
  // Whether members may read the root's buffer. The root then begins a broadcast only when all have
  // completed the one before. Not with several nodes: records of other nodes arrive milliseconds
  // later.
  bool may_be_read() const {
    return !kSpans && spec_.result_bytes >= engine::kPipelinedBytes &&
           spec_.result_bytes <= journal::DirectRead<H>::kMost && journal::may_open(ops_.host);
  }
  // The payload of a nonblocking operation lies in no zone.
  bool readers_have_room() {
    return nonblocking_ || ops_.zones.has_room(c_, e_.sequence, spec_.result_bytes);
  }

  // --- The other members

  [[gnu::always_inline]] Progress advance_receiver(bool thorough) {
    if (c_.root_seen != source_) {
      c_.root_seen = source_;
      c_.root_tail = 0;
    }
    std::uint32_t holder = source_;
    if (c_.root_tail <= e_.sequence) {
      ops_.host.step(Step::kLook);
      c_.root_tail = ops_.peers.tail(c_.members, source_);
    }
    if (c_.root_tail <= e_.sequence) {
      holder = thorough ? ops_.comms.find_record(c_, e_.sequence) : kNobody;
      if (holder == kNobody) {
        copy_chunks();
        return thorough ? this->look_for_disagreement(source_) : Progress::kPending;
      }
    }
    if (!this->is_next()) return Progress::kPending;
    return this->adopt(holder, [this](std::uint64_t value) {
      return (copier_ && copier_->finish(ops_.host, ops_.peers, value)) ||
             copy_before_record(value);
    });
  }
  // Copies all of the payload before this member's record is published, if the root waits for that
  // record (may_be_read): a member that copied afterwards would miss the next open buffer. Returns
  // whether it did.
  bool copy_before_record(std::uint64_t value) {
    const bool waits = spec_.early != nullptr && !nonblocking_ && may_be_read();
    if (!waits || journal::is_in_pieces(value)) return false;
    const std::byte* data = ops_.peers.payload(value, spec_.result_bytes).data();
    engine::copy_chunk(static_cast<std::byte*>(spec_.early), data, spec_.result_bytes,
                       spec_.result_bytes);
    return true;
  }
  // Copies what the root has published of a large payload, while it goes on.
  void copy_chunks() {
    if (spec_.early == nullptr || spec_.result_bytes < engine::kPipelinedBytes) return;
    if (!copier_) copier_.emplace(static_cast<std::byte*>(spec_.early), spec_.result_bytes);
    copier_->advance(ops_.host, ops_.peers, c_.members, source_, e_.sequence);
  }

  const std::uint32_t root_;
  const std::uint32_t source_;  // the member that this rank's record is from
  bool begun_ = false;
  std::optional<engine::ChunkCopier> copier_;  // of a large payload
  static constexpr std::size_t kLeastEarly = 16 * 1024;
  struct NoLending {
    explicit NoLending(H&) {}
  };
  // The buffer of a leader that waits for what another node's root gives.
  [[no_unique_address]] std::conditional_t<kSpans, journal::Lending<H>, NoLending> lending_;
  struct NotScattered {
    explicit operator bool() const { return false; }
  };
  // If the broadcast is.
  [[no_unique_address]] std::conditional_t<kSpans, std::optional<Scattered<H>>, NotScattered>
      scattered_;
};

}  // namespace rejoin::recovery
