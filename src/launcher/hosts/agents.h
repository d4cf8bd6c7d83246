// The agents of a job on several hosts, as its supervisor reaches them: each is a process, started
// on this machine or by a remote shell, that reads orders from its standard input and writes
// reports to its standard output. If this process ends, they read the end of their input, and end
// with all processes of their ranks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/base/loop.h"
#include "launcher/base/result.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/orders/orders.h"

namespace rejoin::launcher {

class Agents {
 public:
  struct Calls {
    std::function<void()> ready;         // all agents can start their ranks
    std::function<void(Error)> failed;   // one cannot; no rank was started
    std::function<void(Report)> report;  // of an agent that is ready
  };

  // `hosts`: by number of the host, as the user named it; empty names are this machine.
  // `remote_shell`: the command that runs a command on a host, without the host's name.
  Agents(Loop& loop, std::vector<std::string> hosts, std::string remote_shell, Calls calls);
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;
  // Ends them all, and waits until they have ended.
  ~Agents();

  // Starts all agents. `plan`: for all of them.
  void start(const Order& plan);
  void send(const Order& order);

 private:
  void give_up_on_silent_ones();
  struct Agent {
    std::string name;  // of its host; empty: this machine
    pid_t pid = -1;
    std::unique_ptr<MessageStream> stream;
    std::uint32_t port = 0;      // of its relay; 0: it is not ready
    bool finished = false;       // it has sent its last report
    std::uint64_t clock_ns = 0;  // what is added to its times
  };

  void spawn(std::uint32_t host);
  void on_message(std::uint32_t host, std::string_view message);
  void on_ready(std::uint32_t host, const Report::Ready& ready);
  void on_end(std::uint32_t host, const std::string& why);
  // Waits for the process of an agent whose stream has ended; returns how it ended, as a predicate.
  std::string how_it_ended(Agent& agent, const std::string& why);
  std::string text_of(std::uint32_t host) const;

  Loop& loop_;
  const std::string remote_shell_;
  const Calls calls_;
  std::vector<Agent> agents_;
  bool all_ready_ = false;
  bool failed_ = false;
  Loop::Timer patience_;
};

}  // namespace rejoin::launcher
