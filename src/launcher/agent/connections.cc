#include "launcher/agent/connections.h"

#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "launcher/base/process.h"
#include "launcher/program/elf.h"

namespace rejoin::launcher {

using wire::Message;
using wire::MessageType;

Connections::Connections(Loop& loop, Descriptor listener, LocalRanks local, std::string secret,
                         Calls calls)
    : loop_(loop),
      listener_(std::move(listener)),
      local_(std::move(local)),
      secret_(std::move(secret)),
      calls_(std::move(calls)) {
  listener_watch_ =
      Loop::Watch(loop_, listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
}

void Connections::accept_all() {
  for (;;) {
    Caller caller = accept_next(listener_.get());
    if (!caller.socket.open()) return;
    const int id = next_id_++;
    Connection& connection = connections_[id];
    connection.caller = std::move(caller);
    connection.watch = Loop::Watch(loop_, connection.caller.socket.get(), EPOLLIN,
                                   [this, id](std::uint32_t) { read(id); });
    read(id);
  }
}

void Connections::read(int id) {
  Message message;
  for (auto found = connections_.find(id); found != connections_.end();
       found = connections_.find(id)) {
    Connection& connection = found->second;
    const wire::Received received =
        wire::receive_message(connection.caller.socket.get(), message, nullptr, MSG_DONTWAIT);
    if (received == wire::Received::kNothing) return;
    if (received == wire::Received::kEnd || !on_message(id, connection, message))
      connections_.erase(id);
  }
}

bool Connections::on_message(int id, Connection& connection, const Message& message) {
  if (!connection.rank) return on_first_message(id, connection, message);
  if (connection.welcome) {
    calls_.says(*connection.rank, message);
  } else {
    calls_.image_says(*connection.rank, message);
  }
  return true;
}

bool Connections::on_first_message(int id, Connection& connection, const Message& message) {
  if (!std::binary_search(local_.begin(), local_.end(), message.rank)) return false;
  const std::string_view text(message.text, message.text_bytes);
  if (text.substr(0, wire::kSecretBytes) != secret_) {
    send_message(connection.caller.socket.get(), MessageType::kRefused, message.rank, 0,
                 "it does not have the secret of this job");
    return false;
  }
  if (message.type == MessageType::kForeignAbi) {
    const std::string soname = text_of(message).substr(wire::kSecretBytes);
    if (is_foreign_mpi(soname)) calls_.foreign(message.rank, soname);
    return true;
  }
  // A process that has ended sent this as a former incarnation: it cannot be the rank.
  const bool dead = has_ended(connection.caller.process.get());
  if (!connection.caller.process.open() && kill(connection.caller.pid, 0) == 0) {
    send_message(connection.caller.socket.get(), MessageType::kRefused, message.rank, 0,
                 "ftrun has no file descriptors left; raise ulimit -n, or use fewer ranks");
    return false;
  }
  const bool asks = message.type == MessageType::kRegister || message.type == MessageType::kImage ||
                    message.type == MessageType::kWoken || message.type == MessageType::kMoves;
  if (!asks || dead) return false;
  read_of(message.rank);  // these messages were sent earlier
  connection.rank = message.rank;
  connection.image = message.type == MessageType::kImage;
  calls_.asks(message.rank, connection.caller.pid, id, message);
  return true;
}

Connections::Connection* Connections::send(int connection, MessageType type, std::uint32_t rank,
                                           std::uint32_t number, std::string_view text,
                                           const wire::Descriptors& with, std::int32_t code) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return nullptr;
  send_message(found->second.caller.socket.get(), type, rank, number, text, with, code);
  return &found->second;
}

std::optional<Caller> Connections::welcome(int connection, std::uint32_t rank,
                                           std::uint32_t incarnation, int segment,
                                           const std::string& text) {
  Connection* of = send(connection, MessageType::kWelcome, rank, incarnation, text, {1, {segment}});
  if (of == nullptr) return {};
  of->welcome = true;
  Caller process;
  process.pid = of->caller.pid;
  process.process = std::move(of->caller.process);
  return process;
}

void Connections::refuse(int connection, std::uint32_t rank, const std::string& why) {
  send(connection, MessageType::kRefused, rank, 0, why);
  close(connection);
}

void Connections::keep(int connection, std::uint32_t rank) {
  Connection* of = send(connection, MessageType::kStay, rank);
  if (of == nullptr) return;
  of->image = true;
  of->welcome = false;
}

void Connections::release(int connection, std::uint32_t rank, int code) {
  send(connection, MessageType::kEnd, rank, 0, {}, {}, code);
}

void Connections::wake(int connection, std::uint32_t rank, std::uint32_t incarnation,
                       const int pipes[3], bool files_go_back) {
  const wire::Descriptors given = {3, {pipes[0], pipes[1], pipes[2]}};
  send(connection, MessageType::kWake, rank, incarnation, {}, given, files_go_back ? 1 : 0);
}

void Connections::write(int connection, std::uint32_t rank, std::uint32_t set, int file) {
  send(connection, MessageType::kWrite, rank, set, {}, {1, {file}});
}

void Connections::read_all(std::uint32_t rank) {
  accept_all();
  read_of(rank);
}

void Connections::read_of(std::uint32_t rank) {
  std::vector<int> ids;
  for (const auto& [id, connection] : connections_) {
    if (connection.rank == rank) ids.push_back(id);
  }
  for (const int id : ids) read(id);
}

void Connections::close_all(std::uint32_t rank) {
  std::erase_if(connections_, [rank](const auto& entry) {
    return entry.second.rank == rank && !entry.second.image;
  });
}

}  // namespace rejoin::launcher
