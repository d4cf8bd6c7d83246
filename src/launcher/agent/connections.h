// The agent's socket: who has connected, which of them is a rank, and what ranks say.
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
#include "wire/messages.h"

namespace rejoin::launcher {

class Connections {
 public:
  struct Calls {
    // A living process that knows the secret asks to be the rank (kRegister, kWoken), or to be an
    // image of it (kImage); answer with welcome, keep or refuse.
    std::function<void(std::uint32_t rank, pid_t pid, int connection, const wire::Message& first)>
        asks;
    // A process that knows the secret is linked against another MPI.
    std::function<void(std::uint32_t rank, const std::string& soname)> foreign;
    // The rank's process says something.
    std::function<void(std::uint32_t rank, const wire::Message& message)> says;
    // An image of the rank does, its keeper, or a clone that is not welcome yet.
    std::function<void(std::uint32_t rank, const wire::Message& message)> image_says;
  };

  Connections(Loop& loop, Descriptor listener, std::uint32_t ranks, std::string secret,
              Calls calls);

  // Hands over the segment. Returns the process behind the connection; nothing: it has gone.
  std::optional<Caller> welcome(int connection, std::uint32_t rank, std::uint32_t incarnation,
                                int segment, const std::string& text = {});
  // Of an image: asks it to clone itself.
  void wake(int connection, std::uint32_t rank, std::uint32_t incarnation, const int pipes[3]);
  // Of an image: asks it to write itself.
  void write(int connection, std::uint32_t rank, std::uint32_t set, int file);
  // Of a process that becomes its rank's keeper: outlives the rank, and is told so.
  void keep(int connection, std::uint32_t rank);
  // Tells it to end with this exit code.
  void release(int connection, std::uint32_t rank, int code);
  void close(int connection) { connections_.erase(connection); }
  void refuse(int connection, std::uint32_t rank, const std::string& why);

  // Reads all that is there of the rank's connections, and of those that are new.
  void read_all(std::uint32_t rank);
  void close_all(std::uint32_t rank);  // but its image's and its keeper's

 private:
  struct Connection {
    Caller caller;
    Loop::Watch watch;
    std::optional<std::uint32_t> rank;  // that it asks to be, or is
    bool welcome = false;
    bool image = false;  // or the rank's keeper
  };

  void accept_all();
  void read_of(std::uint32_t rank);  // its connections, but not those that are new
  void read(int id);
  // False: the connection is over.
  bool on_message(int id, Connection& connection, const wire::Message& message);
  bool on_first_message(int id, Connection& connection, const wire::Message& message);

  Loop& loop_;
  const Descriptor listener_;
  const std::uint32_t ranks_;
  const std::string secret_;
  const Calls calls_;
  Loop::Watch listener_watch_;
  int next_id_ = 1;
  std::map<int, Connection> connections_;
};

}  // namespace rejoin::launcher
