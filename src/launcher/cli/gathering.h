// The agents that join a job (--listen), and the secret that they have to know.
#pragma once

#include <memory>
#include <string>

#include "launcher/base/loop.h"
#include "launcher/base/options.h"
#include "launcher/base/result.h"
#include "launcher/hosts/joined_agents.h"

namespace rejoin::launcher {

class Gathering {
 public:
  // What remains the same if the job begins again, so that its agents find it.
  struct Meeting {
    Meeting() = default;
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;
    ~Meeting();               // removes the secret if it was made for this job
    std::string listen;       // where; empty: at --listen
    std::string made_secret;  // the path of its file
  };

  // Opens the port, and begins to wait. REQUIRES complete() options. Errors: there is no usable
  // secret, or no port.
  static Result<std::unique_ptr<Gathering>> begin(Loop& loop, const RunOptions& options,
                                                  const std::string& lib_directory,
                                                  Meeting& meeting, JoinedAgents::Calls calls);
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  JoinedAgents& agents() { return *agents_; }
  // Gives the hosts and spares of the job the names of the agents that have joined. If it neither
  // survives the loss of a host nor begins again after it, no others may join from now on.
  void name_hosts(RunOptions& options);

 private:
  Gathering() = default;
  std::unique_ptr<JoinedAgents> agents_;
};

}  // namespace rejoin::launcher
