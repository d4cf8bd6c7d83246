#include "launcher/agent/rank_messages.h"

#include <charconv>
#include <utility>

#include "launcher/agent/agent_socket.h"

namespace rejoin::launcher {

using wire::Message;
using wire::MessageType;

namespace {

// Returns 0 if the text is not a number.
std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [at, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc{} ? number : 0;
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
  Event said{Event::Kind::kNotice, loop_.now_ns(), rank};
  said.code = message.code;
  said.value = message.value;
  said.text = text_of(message);
  switch (message.type) {
    case MessageType::kInitialized:
      said.kind = Event::Kind::kInitialized;
      calls_.feed({AgentEvent::Kind::kInitialized, rank, said.at_ns});
      break;
    case MessageType::kFinalized:
      said.kind = Event::Kind::kFinalized;
      said.position = segment_.position(rank);
      said.replay_ns = number_in(std::exchange(said.text, {}));
      said.from = from(message);
      calls_.feed({AgentEvent::Kind::kFinalized, rank, said.at_ns});
      break;
    case MessageType::kLive:
      said.kind = Event::Kind::kLive;
      said.replay_ns = number_in(std::exchange(said.text, {}));
      said.from = from(message);
      break;
    case MessageType::kMark: {
      const bool marked = outputs_.mark(rank, message.value);
      if (rank == 0 && marked) calls_.input_mark(message.value, message.code);
      const bool refused = !marked && (message.value & wire::kMarkOfImage) != 0;
      segment_.set_output_mark(rank, message.value | (refused ? wire::kMarkRefused : 0));
      return;
    }
    case MessageType::kSnapshotDue:
      calls_.snapshot_due(message.code != 0);
      return;
    case MessageType::kJournalStep:
      segment_.give_notice();
      return;
    case MessageType::kNotFrozen:
      calls_.not_frozen(rank, message);
      return;
    case MessageType::kFault:
      calls_.fault(rank, message);
      return;
    case MessageType::kCommitted:
      calls_.committed(message.value, message.code != 0);
      return;
    case MessageType::kLog:
      calls_.log(said.text);
      return;
    case MessageType::kAbort:
      said.kind = Event::Kind::kAbort;
      break;
    case MessageType::kDiverged:
      said.kind = Event::Kind::kDiverged;
      break;
    case MessageType::kLimit:
      said.kind = Event::Kind::kLimit;
      break;
    case MessageType::kNotice:
      break;
    default:
      return;  // a rank does not send these
  }
  calls_.report(said);
}

}  // namespace rejoin::launcher
