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
  // Opens the port, and begins to wait. REQUIRES complete() options. Errors: there is no usable
  // secret, or no port.
  static Result<std::unique_ptr<Gathering>> begin(Loop& loop, const RunOptions& options,
                                                  const std::string& lib_directory,
                                                  JoinedAgents::Calls calls);
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;
  // Closes what is left, and removes the secret if it was made for this job.
  ~Gathering();

  JoinedAgents& agents() { return *agents_; }
  // Gives the hosts and spares of the job the names of the agents that have joined. If it does not
  // survive the loss of a host, no others may join from now on.
  void name_hosts(RunOptions& options);

 private:
  Gathering() = default;
  std::string made_secret_;  // the path of its file
  std::unique_ptr<JoinedAgents> agents_;
};

}  // namespace rejoin::launcher
