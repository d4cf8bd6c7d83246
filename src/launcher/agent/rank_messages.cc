#include "launcher/agent/rank_messages.h"

#include <cstring>
#include <utility>

#include "launcher/agent/agent_socket.h"

namespace rejoin::launcher {

using wire::Message;
using wire::MessageType;

namespace {

// Returns how long the replay took that a kLive or kFinalized message tells of; 0: there was none.
std::uint64_t replay_ns(const Message& message) {
  wire::Replay replay = {};
  if (message.text_bytes == sizeof replay) std::memcpy(&replay, message.text, sizeof replay);
  return replay.ns;
}

// Returns the recovery point that a kLive or kFinalized message names.
RecoveryPoint from(const Message& message) {
  if (message.code <= 0) return {};
  return {RecoveryPoint::Kind::kCheckpoint, static_cast<std::uint64_t>(message.code)};
}

}  // namespace

RankMessages::RankMessages(const Loop& loop, const JobSegment& segment, RankOutputs& outputs,
                           Calls calls)
    : loop_(loop), segment_(segment), outputs_(outputs), calls_(std::move(calls)) {}

void RankMessages::read(std::uint32_t rank, const Message& message) {
  const std::uint64_t now_ns = loop_.now_ns();
  const auto report = [&](decltype(Event::what) what) {
    calls_.report({now_ns, rank, std::move(what)});
  };
  switch (message.type) {
    case MessageType::kInitialized:
      calls_.feed({rank, now_ns, AgentEvent::Initialized{}});
      return report(Event::Initialized{segment_.threads_may_call(rank)});
    case MessageType::kFinalized:
      calls_.feed({rank, now_ns, AgentEvent::Finalized{}});
      return report(Event::Finalized{segment_.position(rank), from(message), replay_ns(message)});
    case MessageType::kLive:
      calls_.feed({rank, now_ns, AgentEvent::Live{}});
      return report(Event::Live{message.value, from(message), replay_ns(message)});
    case MessageType::kMark: {
      const bool marked = outputs_.mark(rank, message.value);
      if (rank == 0 && marked) calls_.input_mark(message.value, message.code);
      const bool refused = !marked && (message.value & wire::kMarkOfImage) != 0;
      return segment_.set_output_mark(rank, message.value | (refused ? wire::kMarkRefused : 0));
    }
    case MessageType::kSnapshotDue:
      return calls_.snapshot_due(message.code != 0);
    case MessageType::kJournalStep:
      return segment_.give_notice();
    case MessageType::kNotFrozen:
      return calls_.not_frozen(rank, message);
    case MessageType::kFault:
      return calls_.fault(rank, message);
    case MessageType::kCommitted:
      return calls_.committed(message.value, message.code != 0);
    case MessageType::kLog:
      return calls_.log(text_of(message));
    case MessageType::kAbort:
      return report(Event::Aborted{message.code, text_of(message)});
    case MessageType::kDiverged:
      return report(Event::Diverged{text_of(message)});
    case MessageType::kLimit:
      return report(Event::JournalFull{});
    case MessageType::kNotice:
      return report(Event::Notice{text_of(message), message.value});
    default:
      return;  // a rank does not send these
  }
}

}  // namespace rejoin::launcher
