#include "launcher/cli/translations.h"

#include <algorithm>

namespace rejoin::launcher {
namespace {

constexpr std::string_view kOrder =
    "ranks of one host are numbered in their order; --bind-to sets their processors";
constexpr std::string_view kNoPmi = "ranks find each other through ftrun alone";
constexpr std::string_view kNoDaemons = "ftrun starts no daemons";
constexpr std::string_view kAlways = "more ranks than processors are always allowed";
constexpr std::string_view kOneHost = "all ranks run on this host";
constexpr std::string_view kGpus =
    "every rank sees every GPU; choose one by rank in the program, or with "
    "-x CUDA_VISIBLE_DEVICES=0";
constexpr std::string_view kAllocation = "ftrun asks for no allocation; it uses the one it runs in";
constexpr std::string_view kMemory = "ftrun does not limit memory; use the allocation or ulimit -v";
constexpr std::string_view kCount =
    "use -n for the number of ranks, and --bind-to for their processors";
constexpr std::string_view kFiles =
    "write > FILE after the command, or use --output-filename DIR for files of each rank";
constexpr std::string_view kTorch = "--torch sets torch.distributed's variables";
constexpr std::string_view kTorchPlace =
    "--torch sets 127.0.0.1 and 29500; -x MASTER_ADDR=... and -x MASTER_PORT=... set others";
constexpr std::string_view kNoComponents = "ftrun has no components to be chosen";

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
    {"-pernode", "--npernode=1"},
    {"--pernode", "--npernode=1"},
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
    {"--nproc_per_node", "--npernode", 1, kTorch},
    {"--nproc-per-node", "--npernode", 1, kTorch},
    {"--nnodes", "--nodes", 1},
    {"--nodelist", "--host", 1},
    {"-w", "--host", 1},
    // Processors of each rank
    {"--cpus-per-task", "--cpus-per-rank", 1},
    {"-cpus-per-rank", "--cpus-per-rank", 1},
    {"--cpus-per-proc", "--cpus-per-rank", 1},
    {"-cpus-per-proc", "--cpus-per-rank", 1},
    // MPICH and Slurm
    {"--chdir", "--wdir", 1},
    {"-D", "--wdir", 1},
    {"--max_restarts", "--max-restarts", 1},
    {"--disable-recovery", "--no-restart"},
    {"--enable-recovery", ""},
    {"--unbuffered", ""},
    {"-u", ""},
    {"--overcommit", ""},
    {"-O", ""},
    {"--overlap", ""},
    {"--standalone", ""},
    {"--no_python", ""},
    {"--no-python", ""},
    {"-l", "--tag-output"},
    {"--label", "--tag-output"},
    {"-prepend-rank", "--tag-output"},
    {"-genv", "-x", 2},
    {"-env", "-x", 2},
    {"-genvall", ""},
    {"-envall", ""},
    {"--cpu-list", "--cpu-set", 1},
    // Options for what ftrun always does
    {"--get-stack-traces", ""},
    {"-get-stack-traces", ""},
    {"--report-state-on-timeout", ""},
    {"-report-state-on-timeout", ""},
    {"--display-map", "--report-bindings"},
    {"-display-map", "--report-bindings"},
    {"--use-hwthread-cpus", ""},
    {"-use-hwthread-cpus", ""},
    // Options without an effect here
    {"--mca", "", 2, kNoComponents},
    {"-mca", "", 2, kNoComponents},
    {"--gmca", "", 2, kNoComponents},
    {"-gmca", "", 2, kNoComponents},
    {"--mpi", "", 1, kNoPmi},
    {"--prefix", "", 1, kNoDaemons},
    {"-prefix", "", 1, kNoDaemons},
    {"--nooversubscribe", "", 0, kAlways},
    {"-nooversubscribe", "", 0, kAlways},
    {"-map-by", "--map-by", 1},
    {"--rank-by", "", 1, kOrder},
    {"-rank-by", "", 1, kOrder},
    {"--bynode", "--map-by=node"},
    {"-bynode", "--map-by=node"},
    {"--byslot", "", 0, kOrder},
    {"-byslot", "", 0, kOrder},
    {"--npersocket", "", 1, kCount},
    {"-npersocket", "", 1, kCount},
    {"--ntasks-per-socket", "", 1, kCount},
    {"--ntasks-per-core", "", 1, kCount},
    {"--distribution", "", 1, kOrder},
    {"--cpu-bind", "", 1, "use --bind-to for the processors of ranks"},
    {"--hint", "", 1, "use --bind-to for the processors of ranks"},
    {"--nolocal", "", 0, kOneHost},
    {"-nolocal", "", 0, kOneHost},
    {"--preload-binary", "", 0, kOneHost},
    {"--node_rank", "", 1, kOneHost},
    {"--node-rank", "", 1, kOneHost},
    {"--xterm", "", 1, "use --output-filename DIR, which writes a file for each rank, and tail -f"},
    {"-xterm", "", 1, "use --output-filename DIR, which writes a file for each rank, and tail -f"},
    {"--kill-on-bad-exit", "", 0,
     "a death that cannot be recovered ends the job; with --no-restart any death does"},
    {"-K", "", 0,
     "a death that cannot be recovered ends the job; with --no-restart any death does"},
    {"--gpus", "", 1, kGpus},
    {"-G", "", 1, kGpus},
    {"--gpus-per-task", "", 1, kGpus},
    {"--gpus-per-node", "", 1, kGpus},
    {"--gpu-bind", "", 1, kGpus},
    {"--gres", "", 1, kGpus},
    {"--mem", "", 1, kMemory},
    {"--mem-per-cpu", "", 1, kMemory},
    {"--partition", "", 1, kAllocation},
    {"-p", "", 1, kAllocation},
    {"--account", "", 1, kAllocation},
    {"-A", "", 1, kAllocation},
    {"--qos", "", 1, kAllocation},
    {"--exclusive", "", 0, kAllocation},
    {"--time", "", 1, "use --timeout SECONDS to end a job"},
    {"-t", "", 1, "use --timeout SECONDS to end a job"},
    {"--export", "", 1, "ranks inherit all variables of ftrun; use -x NAME=VALUE to set one"},
    {"--rdzv_backend", "", 1, kNoPmi},
    {"--rdzv-backend", "", 1, kNoPmi},
    {"--rdzv_endpoint", "", 1, kNoPmi},
    {"--rdzv-endpoint", "", 1, kNoPmi},
    {"--rdzv_id", "", 1, kNoPmi},
    {"--rdzv-id", "", 1, kNoPmi},
    {"--master_addr", "", 1, kTorchPlace},
    {"--master-addr", "", 1, kTorchPlace},
    {"--master_port", "", 1, kTorchPlace},
    {"--master-port", "", 1, kTorchPlace},
    // Refused options, because the user would miss their effect
    {"-o", "", 1, kFiles, true},
    {"--output", "", 1, kFiles, true},
    {"-e", "", 1, kFiles, true},
    {"--error", "", 1, kFiles, true},
    {"-i", "", 1, "write < FILE after the command", true},
    {"--input", "", 1, "write < FILE after the command", true},
    {"--multi-prog", "", 0, "write -n 1 PROGRAM : -n 3 OTHER", true},
    {"--app", "", 1, "write -n 1 PROGRAM : -n 3 OTHER", true},
    {"-configfile", "", 1, "write -n 1 PROGRAM : -n 3 OTHER", true},
};

}  // namespace

std::span<const Translation> translations() { return kTranslations; }

const Translation* find_translation(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTranslations), std::end(kTranslations),
                                   [name](const Translation& t) { return t.theirs == name; });
  return found == std::end(kTranslations) ? nullptr : found;
}

}  // namespace rejoin::launcher
