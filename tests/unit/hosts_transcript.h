// Jobs on two hosts, for transcripts of their supervisor.
#pragma once

#include "supervisor_transcript.h"

namespace rejoin::launcher {

inline RunOptions two_hosts(bool survive) {
  RunOptions options;
  options.programs = {{.ranks = 2, .command = {"a.out"}}};
  options.layout = {1, 1};
  options.between_nodes = BetweenNodes::kSockets;
  options.hosts = {"a", "b"};
  options.survive_host = survive;
  options.spare_hosts = {"c"};
  return options;
}

inline const std::string kBothRun = R"(
> 1 registered 0
record register rank 0 incarnation 0
> 1 registered 1
record register rank 1 incarnation 0
> 2 initialized 0
record init rank 0 incarnation 0
> 2 initialized 1
record init rank 1 incarnation 0
)";

inline const std::string kStored = kBothRun + R"(> 3 images-due 0 host=1
want set 1
> 5 of-set 0 host=0 value=1 code=0
> 6 of-set 0 host=1 value=1 code=0
store parts of set 1: 1 0
> 7 of-set 0 host=1 value=1 code=4
> 8 of-set 0 host=0 value=1 code=4
keep set 1
record stored
> 9 of-set 0 host=0 value=1 code=6
> 9 of-set 0 host=1 value=1 code=6
)";

}  // namespace rejoin::launcher
