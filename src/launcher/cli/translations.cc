#include "launcher/cli/translations.h"

#include <algorithm>

namespace rejoin::launcher {
namespace {

constexpr std::string_view kOrder =
    "ranks of one host are numbered in their order; --bind-to says where they run";
constexpr std::string_view kNoPmi = "ranks find each other through ftrun alone";
constexpr std::string_view kNoDaemons = "there are no daemons to be found elsewhere";
constexpr std::string_view kAlways = "ranks may be more than processors";
constexpr std::string_view kNoComponents = "there are no components to choose";

constexpr Translation kTranslations[] = {
    // Open MPI with one dash
    {"-np", "--np", 1},
    {"-wdir", "--wdir", 1},
    {"-wd", "--wd", 1},
    {"-tag-output", "--tag-output"},
    {"-timestamp-output", "--timestamp-output"},
    {"-output-filename", "--output-filename", 1},
    {"-merge-stderr-to-stdout", "--merge-stderr-to-stdout"},
    {"-stdin", "--stdin", 1},
    {"-bind-to", "--bind-to", 1},
    {"-report-bindings", "--report-bindings"},
    {"-cpu-set", "--cpu-set", 1},
    {"-timeout", "--timeout", 1},
    {"-oversubscribe", "--oversubscribe"},
    {"-allow-run-as-root", "--allow-run-as-root"},
    // The number of ranks
    {"-c", "-n", 1},
    {"--ntasks", "-n", 1},
    {"--ntasks-per-node", "--npernode", 1},
    {"-N", "--npernode", 1},
    {"-npernode", "--npernode", 1},
    {"-ppn", "--npernode", 1},
    {"--ppn", "--npernode", 1},
    {"-perhost", "--npernode", 1},
    {"-host", "--host", 1},
    {"-hosts", "--host", 1},
    {"-hostfile", "--hostfile", 1},
    {"-machinefile", "--hostfile", 1},
    {"--machinefile", "--hostfile", 1},
    {"-f", "--hostfile", 1},
    // MPICH and Slurm
    {"-l", "--tag-output"},
    {"--label", "--tag-output"},
    {"-prepend-rank", "--tag-output"},
    {"-genv", "-x", 2},
    {"-env", "-x", 2},
    {"-genvall", ""},
    {"-envall", ""},
    {"--cpu-list", "--cpu-set", 1},
    // Done always
    {"--get-stack-traces", ""},
    {"-get-stack-traces", ""},
    {"--report-state-on-timeout", ""},
    {"-report-state-on-timeout", ""},
    {"--display-map", "--report-bindings"},
    {"-display-map", "--report-bindings"},
    {"--use-hwthread-cpus", ""},
    {"-use-hwthread-cpus", ""},
    // What does nothing
    {"--mca", "", 2, kNoComponents},
    {"-mca", "", 2, kNoComponents},
    {"--gmca", "", 2, kNoComponents},
    {"-gmca", "", 2, kNoComponents},
    {"--mpi", "", 1, kNoPmi},
    {"--prefix", "", 1, kNoDaemons},
    {"-prefix", "", 1, kNoDaemons},
    {"--nooversubscribe", "", 0, kAlways},
    {"-nooversubscribe", "", 0, kAlways},
    {"--map-by", "", 1, kOrder},
    {"-map-by", "", 1, kOrder},
    {"--rank-by", "", 1, kOrder},
    {"-rank-by", "", 1, kOrder},
};

}  // namespace

std::span<const Translation> translations() { return kTranslations; }

const Translation* find_translation(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTranslations), std::end(kTranslations),
                                   [name](const Translation& t) { return t.theirs == name; });
  return found == std::end(kTranslations) ? nullptr : found;
}

}  // namespace rejoin::launcher
