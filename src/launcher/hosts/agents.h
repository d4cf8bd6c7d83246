// The agents of a job on several hosts, as its supervisor reaches them: each is a process, started
// on this machine or by a remote shell, that reads orders from its standard input and writes
// reports to its standard output; or it has joined, and both go over its connection. If this
// process ends, they read the end of their input, and end with all processes of their ranks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/loop.h"
#include "launcher/base/result.h"
#include "launcher/hosts/joined_agents.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/orders/orders.h"

namespace rejoin::launcher {

class Agents {
 public:
  struct Calls {
    std::function<void()> ready;        // all agents can start their ranks
    std::function<void(Error)> failed;  // one cannot; no rank was started
    // One cannot, because it was not reached, or has ended. Returns whether start_elsewhere() will
    // be called; else failed() is.
    std::function<bool(std::uint32_t host, const Error& why)> elsewhere;
    std::function<void(Report)> report;  // of an agent that is ready
    // Some have not been ready, or have not finished, for long: a line for the user, from time to
    // time.
    std::function<void(const std::string& line)> waits;
  };

  // `hosts`: by number of the host, as the user named it; empty names are this machine.
  // `remote_shell`: the command that runs a command on a host, without the host's name.
  // `lease_ns`: an agent that is silent for longer is lost; 0: it may be silent for ever. If there
  // are leases, the end of a connection says nothing about ranks on another machine: the agent is
  // lost when its lease has passed.
  Agents(Loop& loop, std::vector<std::string> hosts, std::string remote_shell,
         std::uint64_t lease_ns, Calls calls);
  // Agents that have joined by these names, and may join until `join_ns` after the loss of one.
  // They are given away by `joined`, which outlives this object.
  Agents(Loop& loop, std::vector<std::string> hosts, JoinedAgents& joined, std::uint64_t join_ns,
         std::uint64_t lease_ns, Calls calls);
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;
  // Ends them all, and waits until they have ended.
  ~Agents();

  // Starts all agents. `plan`: for all of them.
  void start(Order plan);
  // Starts one on another host. `plan`: as for start(). REQUIRES that not all are ready.
  void start_elsewhere(std::uint32_t host, const std::string& where, Order plan);
  void send(const Order& order);
  // Starts another agent in the place of one that is lost, on the host `where`. `plan`: as for
  // start(), with the set of its part, whose holder is the agent of `holder`. When it is ready, all
  // others are told where its relay is. Agents that join: `where` may be empty for the next one.
  void replace(std::uint32_t host, const std::string& where, std::uint32_t holder, Order plan);
  // An agent has joined since the start: it takes the place of one that is lost, or is a spare.
  void on_joined(const std::string& name);

 private:
  void begin_to_tell();
  void tell_what_is_awaited();
  void give_up_on_silent_ones();
  void look_at_leases();
  void report_lost(std::uint32_t host, const std::string& how);
  void lease_is_over(std::uint32_t host);
  bool end_ranks(std::uint32_t host);
  struct Replacement {
    std::string where;
    std::uint32_t holder;
    Order plan;
  };
  struct Agent {
    std::string name;          // of its host; empty: this machine
    std::string address = {};  // of a host that has joined
    pid_t pid = -1;
    std::unique_ptr<MessageStream> stream;
    std::uint32_t port = 0;  // of its relay; 0: it is not ready
    std::uint32_t part_port = 0;
    bool is_over = false;        // all of its ranks have ended
    bool finished = false;       // it has sent its last report
    std::uint64_t heard_ns = 0;  // when its newest message came
    // It is lost when this time has come; 0: when it has been silent for its lease.
    std::uint64_t until_ns = 0;
    std::string how_lost = {};                    // by that, or while it may run
    std::uint64_t clock_ns = 0;                   // what is added to its times
    bool has_ended = false;                       // its stream has
    bool is_here = false;                         // on this machine, as a child
    bool may_run = false;                         // it has ended like that, and its ranks may run
    std::optional<Replacement> replacement = {};  // when they do not run any more
    std::optional<Order> plan = {};  // for the next agent that joins: there is none here
    bool is_there() const { return pid > 0 || (stream && !has_ended); }
  };
  std::uint64_t end_of_lease_ns(const Agent& agent) const { return agent.heard_ns + lease_ns_; }

  Agents(Loop& loop, std::vector<std::string> hosts, std::string remote_shell, JoinedAgents* joined,
         std::uint64_t join_ns, std::uint64_t lease_ns, Calls calls);
  MessageStream::Calls calls_of(std::uint32_t host);
  void give_place(std::uint32_t host);
  void cut(Agent& agent);
  void no_agent_joins(std::uint32_t host, const std::string& why);
  void spawn(std::uint32_t host);
  void put_new(Agent& agent, const std::string& where);
  void on_message(std::uint32_t host, std::string_view message);
  void on_ready(std::uint32_t host, const Report::Ready& ready);
  void on_end(std::uint32_t host, const std::string& why);
  void fail(std::uint32_t host, Error error);
  Order addresses_of(std::uint32_t first, std::uint32_t end) const;
  void send_all(Order order);
  std::string address_of(std::uint32_t host) const;
  // Waits for the process of an agent whose stream has ended; returns how it ended, as a predicate.
  std::string how_it_ended(Agent& agent, const std::string& why);
  std::string text_of(std::uint32_t host) const;

  Loop& loop_;
  const std::string remote_shell_;
  JoinedAgents* const joined_;  // null: agents are started
  const std::uint64_t join_ns_;
  const Calls calls_;
  std::vector<Agent> agents_;
  std::size_t ready_ = 0;  // agents that have been ready
  bool all_ready_ = false;
  bool failed_ = false;
  bool finishes_ = false;  // they were told to
  std::uint64_t awaited_since_ns_ = 0;
  Loop::Timer tell_timer_;  // while some are not ready, or have not finished
  Loop::Timer patience_;
  bool is_hurried_ = false;  // the user has asked twice
  const std::uint64_t lease_ns_;
  std::uint64_t looked_ns_ = 0;  // at the leases
  Loop::Timer lease_timer_;
};

}  // namespace rejoin::launcher
