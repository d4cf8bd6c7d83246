// Beginnings of transcripts of the agent's core, with one rank or with two, and parts that many
// transcripts share.
#pragma once

#include <sstream>
#include <string>

namespace rejoin::launcher {

// Until the rank runs.
inline const std::string kUntilRuns = R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=10 conn=5
welcome 0 on 5
> 3 initialized 0
)";
// Until an image of the rank has been requested.
inline const std::string kUntilWanted = kUntilRuns + R"(> 4 want 0
want set 1
want image 1 of 0
)";
// Until this image is kept.
inline const std::string kUntilKept = kUntilWanted + R"(> 5 image 0 pid=20 conn=6 image=1 inc=0
keep image 1 of 0, pid 20
)";

// The rank runs in a script that waits for it, and an image of it has been requested.
inline const std::string kUntilRunsWrapped = R"(
> 0 spawn 0
admit 0
spawn 0
> 1 spawned 0 pid=10
> 2 register 0 pid=11 conn=5
welcome 0 on 5
> 3 initialized 0
> 4 want 0
want set 1
want image 1 of 0
)";
// Until the rank has moved into a clone.
inline const std::string kUntilMoved = kUntilRunsWrapped + R"(> 5 moves 0 pid=12 conn=6 of=11 inc=0
move 0 to pid 12, keeper on 5
welcome 0 on 6
)";
// Until an image of the moved rank is kept.
inline const std::string kUntilMovedKept = kUntilMoved + R"(> 6 image 0 pid=20 conn=7 image=1 inc=0
keep image 1 of 0, pid 20
)";

// The rank is killed at 7, and all processes of its tree have ended.
inline const std::string kKilled = R"(> 7 child-ended 0 signal=9
kill tree 0
> 8 tree-gone 0
drain 0
report 0 ended by signal 9, Killed at 7
)";
// After that, the rank is admitted again.
inline const std::string kAdmitted = kKilled + R"(> 9 respawn 0 inc=1
publish death 0
ring all
admit 0
)";
// Until the rank's image is woken.
inline const std::string kUntilWaking = kUntilKept + kAdmitted + "wake image 1 of 0\n";

// A job of one rank resumes from written images.
inline const std::string kUntilRestoring = R"(
> 0 resume 0 image=7 inc=3
publish death 0
admit 0
> 1 restore 0
restore 0 from image 7
)";
inline const std::string kUntilRestorer = kUntilRestoring + "> 1 spawned 0 pid=10\n";

// Until two ranks run.
inline const std::string kTwoRun = R"(
> 0 spawn 0
admit 0
spawn 0
> 0 spawn 1
admit 1
spawn 1
> 1 spawned 0 pid=10
> 1 spawned 1 pid=11
> 2 register 0 pid=10 conn=5
welcome 0 on 5
> 2 register 1 pid=11 conn=6
welcome 1 on 6
> 3 initialized 0
> 3 initialized 1
)";
// Until a set of their images is kept.
inline const std::string kSetKept = kTwoRun + R"(> 4 want 0
want set 1
want image 1 of 0
want image 1 of 1
> 5 image 0 pid=20 conn=7 image=1 inc=0
> 6 image 1 pid=21 conn=8 image=1 inc=0
keep image 1 of 0, pid 20
keep image 1 of 1, pid 21
)";
// After that, until only the image of rank 0 is missing from the next set.
inline const std::string kSecondAwaited = R"(> 7 want 0
want set 2
want image 2 of 0
want image 2 of 1
> 8 image 1 pid=23 conn=9 image=2 inc=0
)";

// Returns the events of a transcript, one in each line.
inline std::string events_of(const std::string& transcript) {
  std::istringstream lines(transcript);
  std::string events;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("> ")) events += line.substr(2) + "\n";
  }
  return events;
}

}  // namespace rejoin::launcher
