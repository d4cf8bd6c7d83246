// --checkpoint-dir of a job on several hosts: a directory that all of them share.
//
//     DIRECTORY/host-NUMBER/    this host's parts of the sets, as the sets of a job on one host are
//                               (image_sets.h), and what its ranks have done to files
//     DIRECTORY/job             the job that runs (former_job.h)
//
// The parts of a set have its number, on all hosts. A part is of use only together with those of
// all other hosts, and they must be of one job: after --resume numbers are used again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent/image_sets.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

std::string directory_of_host(const std::string& directory, std::uint32_t host);
// Whether a job on several hosts has written there.
bool holds_host_sets(const std::string& directory);

struct HostSet {
  std::uint64_t number;
  std::uint32_t incarnation;  // that no rank of any host has been
  std::int64_t cut_at_s;      // of its oldest part
  bool input_ended;           // of the part of rank 0's host
};
// Returns the newest set of which each of so many hosts has its part. Reads no images, so a part
// may still turn out to be damaged. `notices`: a line for each set that is not whole. Errors: there
// is none.
Result<HostSet> newest_host_set(const std::string& directory, std::uint32_t hosts,
                                std::vector<std::string>& notices);

}  // namespace rejoin::launcher
