// Agents that connect to ftrun (--listen, `ftrun agent --join`), until they are given a place in
// the job: opening the port, proving the secret, and what each says about itself.
//
// Before a connection has proved that it knows the secret it costs a descriptor and what OpenSSL
// needs. At most kMostUnproved of them exist, each for kProofNs; one more takes the place of the
// oldest.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/loop.h"
#include "launcher/base/result.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/hosts/tls.h"
#include "launcher/orders/orders.h"

namespace rejoin::launcher {

class JoinedAgents {
 public:
  static constexpr std::size_t kMostUnproved = 8;
  static constexpr std::uint64_t kProofNs = 2'000'000'000;

  struct Settings {
    std::string listen;  // [ADDRESS]:PORT
    std::string secret;
    std::string version;  // of Rejoin: agents of another one are refused
    // The hosts of the job and its spares. Empty names are given by the agents; else only these may
    // join.
    std::vector<std::string> names;
    std::uint64_t limit_ns;  // until all have joined
    bool quiet;              // without lines about the progress
  };
  struct Calls {
    std::function<void()> complete;     // as many as there are names have joined: names()
    std::function<void(Error)> failed;  // they have not, in time
    // After that: another one has joined, or one that was not taken has left.
    std::function<void(const std::string& name)> joined;
    std::function<void(const std::string& name, const std::string& how)> left;
    std::function<void(const std::string& line)> tell;  // for the user
  };
  // An agent without a place.
  struct Agent {
    std::string name;     // of its host
    std::string address;  // of its host, for others
    std::unique_ptr<MessageStream> stream;
  };

  JoinedAgents(Loop& loop, TlsLibrary tls, Settings settings, Calls calls);

  // Opens the port. Errors: it is taken, the address is another machine's, or is none.
  std::optional<Error> listen();
  std::uint16_t port() const { return port_; }
  // Begins to wait. `secret_file`: for the line that says what to run.
  void wait_for_all(const std::string& secret_file);
  // The names of the agents that have no place: in the order of Settings::names, or if those are
  // empty, in which they have joined.
  std::vector<std::string> names() const;
  // Gives away the agent of this host; without a stream: it has left.
  Agent take(const std::string& name);
  // The agent of this host, which was taken, is gone: another one may join by its name.
  void gone(const std::string& name) { taken_.erase(name); }
  // As --listen, with the port that the system has chosen. REQUIRES listen().
  std::string listens_at() const;
  // Refuses all others from now on.
  void close();
  // Lets those that have no place end well. `again`: they join once more, for the same job.
  void finish(bool again);

 private:
  // A connection that has not said yet what it is.
  struct Visitor {
    std::uint64_t number;
    std::string from;  // its address
    std::uint64_t until_ns;
    std::unique_ptr<MessageStream> stream;
  };

  void accept_all();
  void on_message(std::uint64_t visitor, std::string_view message);
  void drop(std::uint64_t visitor, const std::string& why);
  void drop_late_ones();
  void admit(std::uint64_t visitor, const Report::Joined& joined);
  // Why it may not join; empty: it may.
  std::string objection(const Agent& agent, const Report::Joined& joined) const;
  void refuse(Agent agent, const std::string& why);
  void leave(const std::string& name, const std::string& how);
  void tell_progress();
  void time_is_over();
  std::string missing() const;
  void tell_once(const std::string& from, const std::string& what);
  bool is_named() const { return !settings_.names[0].empty(); }
  std::vector<Visitor>::iterator find(std::uint64_t number);

  Loop& loop_;
  const TlsLibrary tls_;
  const Settings settings_;
  const Calls calls_;
  Descriptor listener_;
  std::uint16_t port_ = 0;
  std::uint64_t next_number_ = 0;
  std::vector<Visitor> visitors_;  // the oldest first
  std::vector<Agent> agents_;      // that have no place, in the order in which they have joined
  std::map<std::string, std::string> taken_;  // names of those that have one; their addresses
  std::deque<std::unique_ptr<MessageStream>> refused_;  // that have to read why, the newest few
  std::set<std::string> told_;  // lines about connections, each of which is shown once
  bool is_complete_ = false;
  bool is_closed_ = false;
  std::uint64_t until_ns_ = 0;
  Loop::Watch listener_watch_;
  Loop::Timer proof_timer_, progress_timer_, limit_timer_;
};

// Splits "HOST:PORT", "[HOST]:PORT" or ":PORT". Returns an empty port if it is none of these.
std::pair<std::string, std::string> host_and_port(const std::string& text);

// A connection for orders fails when its other end has been gone for so long.
inline constexpr int kControlSilence_s = 60;

}  // namespace rejoin::launcher
