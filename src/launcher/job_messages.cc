// What ranks say over their sockets.
#include <poll.h>

#include "launcher/job.h"
#include "launcher/program/elf.h"

namespace rejoin::launcher {
namespace {

using wire::Message;
using wire::MessageType;

}  // namespace

void Job::accept_all() {
  for (;;) {
    Caller caller = accept_next(listener_.get());
    if (!caller.socket.open()) return;
    connections_.push_back(std::make_unique<Connection>());
    Connection& connection = *connections_.back();
    connection.socket = std::move(caller.socket);
    connection.pid = caller.pid;
    connection.process = std::move(caller.process);
    read_connection(connection);
  }
}

void Job::read_connection(Connection& connection) {
  Message message;
  while (connection.socket.open()) {
    const Received received = receive(connection.socket.get(), message);
    if (received == Received::kNothing) return;
    if (received == Received::kEnd) {
      connection.socket.reset();
    } else if (connection.rank) {
      on_message(connection, message);
    } else {
      on_first_message(connection, message);
    }
    run_queue();
  }
}

void Job::on_first_message(Connection& connection, const Message& message) {
  const int socket = connection.socket.get();
  if (message.rank >= plan_.ranks) {
    connection.socket.reset();
  } else if (std::string_view text(message.text, message.text_bytes);
             text.substr(0, wire::kSecretBytes) != plan_.secret) {
    send_message(socket, MessageType::kRefused, message.rank, 0, "wrong secret", -1);
    connection.socket.reset();
  } else if (message.type == MessageType::kForeignAbi) {
    const std::string soname = text_of(message).substr(wire::kSecretBytes);
    if (!is_foreign_mpi(soname)) return;
    Event event{Event::Kind::kForeignAbi, now_ns(), message.rank};
    event.text = soname;
    feed(event);
  } else if (message.type != MessageType::kRegister) {
    connection.socket.reset();
  } else if (has_ended(connection.process.get())) {
    // Said by a former incarnation just before its death: it cannot be the rank any more.
    connection.socket.reset();
  } else {
    // What its predecessor said, and its end, came before.
    read_registered(message.rank);
    on_registered_ended(message.rank);
    connection.rank = message.rank;
    feed(AgentEvent{
        AgentEvent::Kind::kRegister, message.rank, now_ns(), connection.pid, socket, {}});
  }
}

void Job::answer(Connection& connection, const AgentAction& action) {
  const int socket = connection.socket.get();
  if (action.kind == AgentAction::Kind::kRefuse) {
    send_message(socket, MessageType::kRefused, action.rank, 0, action.text, -1);
    connection.socket.reset();
    return;
  }
  RankIo& r = ranks_[action.rank];
  r.registered_pid = connection.pid;
  r.registered.reset();
  // The child's own end comes as SIGCHLD.
  if (connection.pid != r.child) r.registered = std::move(connection.process);
  connection.incarnation = supervisor_.incarnation(action.rank);
  send_message(socket, MessageType::kWelcome, action.rank, connection.incarnation, "",
               segment_.descriptor());
  Event event{Event::Kind::kRegistered, now_ns(), action.rank};
  event.pid = connection.pid;
  feed(event);
}

void Job::on_message(Connection& connection, const Message& message) {
  const std::uint32_t rank = *connection.rank;
  // Said by a process that is dead by now.
  if (connection.incarnation != supervisor_.incarnation(rank)) return;
  Event event{Event::Kind::kNotice, now_ns(), rank};
  event.code = message.code;
  event.value = message.value;
  event.text = text_of(message);
  switch (message.type) {
    case MessageType::kInitialized:
      event.kind = Event::Kind::kInitialized;
      feed(AgentEvent{AgentEvent::Kind::kInitialized, rank, event.at_ns});
      break;
    case MessageType::kFinalized:
      event.kind = Event::Kind::kFinalized;
      event.position = segment_.position(rank);
      feed(AgentEvent{AgentEvent::Kind::kFinalized, rank, event.at_ns});
      break;
    case MessageType::kLive:
      event.kind = Event::Kind::kLive;
      break;
    case MessageType::kMark:
      mark_output(rank, message.value);
      return;
    case MessageType::kCommitted:
      if (checkpoints_) checkpoints_->offer(message.value);
      return;
    case MessageType::kLog:
      err_.queue() += expanded(event.text) + "\n";
      return;
    case MessageType::kAbort:
      event.kind = Event::Kind::kAbort;
      break;
    case MessageType::kDiverged:
      event.kind = Event::Kind::kDiverged;
      break;
    case MessageType::kLimit:
      event.kind = Event::Kind::kLimit;
      break;
    case MessageType::kNotice:
      break;
    case MessageType::kForeignAbi:
    case MessageType::kRegister:
    case MessageType::kWelcome:
    case MessageType::kRefused:
      return;
  }
  feed(event);
}

void Job::read_registered(std::uint32_t rank) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i]->rank == rank) read_connection(*connections_[i]);
  }
}

void Job::close_connections(std::uint32_t rank) {
  for (const auto& connection : connections_) {
    if (connection->rank == rank) connection->socket.reset();
  }
  ranks_[rank].registered.reset();
  ranks_[rank].registered_pid = 0;
}

}  // namespace rejoin::launcher
