// The agent's socket: the connected processes, which of them are ranks, and their messages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_socket.h"
#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/base/options.h"
#include "wire/messages.h"

namespace rejoin::launcher {

class Connections {
 public:
  struct Calls {
    // A living process that knows the secret asks to be the rank (kRegister, kWoken, kMoves), or an
    // image of it (kImage). Answer with welcome(), keep() or refuse().
    std::function<void(std::uint32_t rank, pid_t pid, int connection, const wire::Message& first)>
        asks;
    // A process that knows the secret is linked against another MPI.
    std::function<void(std::uint32_t rank, const std::string& soname)> foreign;
    // A message from the rank's process.
    std::function<void(std::uint32_t rank, const wire::Message& message)> says;
    // A message from an image of the rank, its keeper, or a clone that is not welcome yet.
    std::function<void(std::uint32_t rank, const wire::Message& message)> image_says;
  };

  Connections(Loop& loop, Descriptor listener, LocalRanks local, std::string secret, Calls calls);

  // Hands over the segment. Returns the process behind the connection; nothing: it has closed.
  std::optional<Caller> welcome(int connection, std::uint32_t rank, std::uint32_t incarnation,
                                int segment, const std::string& text = {});
  // Asks an image to clone itself. files_go_back: as in AgentAction::Wake.
  void wake(int connection, std::uint32_t rank, std::uint32_t incarnation, const int pipes[3],
            bool files_go_back);
  // Asks an image to write itself to `file`.
  void write(int connection, std::uint32_t rank, std::uint32_t set, int file);
  // Makes a process its rank's keeper, and notifies it: its connection outlives the rank's process.
  void keep(int connection, std::uint32_t rank);
  // Asks the keeper to end with this exit code.
  void release(int connection, std::uint32_t rank, int code);
  void close(int connection) { connections_.erase(connection); }
  void refuse(int connection, std::uint32_t rank, const std::string& why);

  // Reads all pending messages of the rank's connections and of new connections.
  void read_all(std::uint32_t rank);
  void close_all(std::uint32_t rank);  // except its image's and its keeper's

 private:
  struct Connection {
    Caller caller;
    Loop::Watch watch;
    std::optional<std::uint32_t> rank;  // that it asks to be, or is
    bool welcome = false;
    bool image = false;  // an image of the rank, or its keeper
  };

  // Sends a message. Returns nullptr if the connection has closed: its end will be seen.
  Connection* send(int connection, wire::MessageType type, std::uint32_t rank,
                   std::uint32_t number = 0, std::string_view text = {},
                   const wire::Descriptors& with = {}, std::int32_t code = 0);
  void accept_all();
  void read_of(std::uint32_t rank);  // reads the rank's connections, but no new ones
  void read(int id);
  // False: the connection is over.
  bool on_message(int id, Connection& connection, const wire::Message& message);
  bool on_first_message(int id, Connection& connection, const wire::Message& message);

  Loop& loop_;
  const Descriptor listener_;
  const LocalRanks local_;
  const std::string secret_;
  const Calls calls_;
  Loop::Watch listener_watch_;
  int next_id_ = 1;
  std::map<int, Connection> connections_;
};

}  // namespace rejoin::launcher
