#include "launcher/cli/raw_options.h"

namespace rejoin::launcher {
namespace {

constexpr const char* kDescription =
    "Usage: ftrun [OPTIONS] PROGRAM [ARGUMENTS...]\n"
    "  or:  ftrun [OPTIONS] -n 1 PROGRAM [ARGUMENTS...] : -n 3 OTHER [ARGUMENTS...]\n"
    "  or:  ftrun --listen [ADDRESS]:PORT --nodes N --npernode N [OPTIONS] PROGRAM [ARGUMENTS...]\n"
    "  or:  ftrun agent --join HOST:PORT\n"
    "  or:  ftrun check PROGRAM\n"
    "  or:  ftrun inspect FILE... [--rank R] [--json]\n"
    "\n"
    "Runs an MPI program and restarts single ranks that die; checks a program before it runs;\n"
    "prints journals that were written with --keep.\n"
    "\n"
    "A rank that dies is restarted. It replays its past from a journal in shared memory\n"
    "and rejoins the other ranks, which wait for it. The program may be any that was built\n"
    "for Open MPI 4 or 5 (libmpi.so.40), unchanged, or one that was built with ftmpicc.";

constexpr const char* kFooter =
    "Examples:\n"
    "  ftrun -n 4 ./a.out input.dat            four ranks, up to four restarts of each\n"
    "  ftrun -n 1 ./server : -n 8 ./worker     nine ranks, rank 0 another program\n"
    "  ftrun -n 4 --kill 2@1000 ./a.out        rank 2 dies in its 1000th operation\n"
    "  ftrun -n 4 --kill 0@init.after --kill 0@5.before#1 ./a.out\n"
    "                                          rank 0 dies twice: after MPI_Init, and its second\n"
    "                                          incarnation before its fifth operation\n"
    "  ftrun -n 4 --events log.jsonl --keep ./a.out\n"
    "                                          every death and return as a line of JSON; the\n"
    "                                          journal is written, for ftrun inspect\n"
    "\n"
    "Signals: INT, TERM, HUP and QUIT end the job (a second one at once); USR1 prints the\n"
    "operation and stack of every rank; USR2 is passed on to the ranks; TSTP stops ranks and\n"
    "ftrun until CONT.\n"
    "\n"
    "Exit code: the program's (the first that is not 0), 128+N after signal N, MPI_Abort's\n"
    "code, 110 after --timeout, 126 and 127 if the program cannot be run or found, 2 for\n"
    "wrong usage, 1 for everything else.";

constexpr const char* kMpirunGroup = "As under mpirun";

void describe_mpirun_options(CLI::App& app, Raw& raw) {
  app.option_defaults()->group(kMpirunGroup);
  RunOptions& o = raw.options;
  app.add_flag("--tag-output", o.output.tagged, "begin each line of output with [RANK]<stdout>:");
  app.add_flag("--timestamp-output", o.output.timed, "begin each line with the time");
  app.add_flag("--merge-stderr-to-stdout", o.output.merged,
               "send standard error of ranks to standard output, too");
  app.add_flag("--commit-output", o.output.commits,
               "show output only when its rank has a newer snapshot: each\n"
               "line exactly once, also if all ranks go back");
  app.add_option("--output-filename", raw.output_directory,
                 "write output also to DIR/rank.R/stdout and stderr, or\n"
                 "only to these files with DIR:nocopy")
      ->type_name("DIR[:nocopy]");
  app.add_option("--stdin", raw.standard_input,
                 "rank that reads ftrun's standard input: 0 (default),\n"
                 "or none")
      ->type_name("RANK");
  app.add_option("--bind-to", raw.binding,
                 "hwthread, core, l1cache, l2cache, l3cache, numa,\n"
                 "socket, none or auto (default): a processor for each\n"
                 "rank, or for each of its OMP_NUM_THREADS, if that is\n"
                 "more than half of the processors, else none")
      ->type_name("WHAT");
  app.add_flag("--report-bindings", o.report_bindings,
               "print the processors on which each rank runs");
  app.add_option("--cpu-set", raw.processors, "use only these processors, for example 0-3,6")
      ->type_name("LIST");
  app.add_option("--timeout", raw.timeout,
                 "after this time, print the operation and stack of every\n"
                 "rank and end the job")
      ->type_name("SECONDS");
  app.add_option("--layout", raw.layout,
                 "number of ranks of each node, for example 4,4. Nodes\n"
                 "share this machine; reductions have the bits, and\n"
                 "MPI_Comm_split_type the groups, of a job on so many\n"
                 "machines")
      ->type_name("LIST");
  app.add_option("--between-nodes", raw.between_nodes,
                 "what the nodes of --layout share: memory (default);\n"
                 "only messages; or sockets: connections, as different\n"
                 "machines do, to try that. fabric: connections of\n"
                 "libfabric (InfiniBand, EFA, Slingshot), also between\n"
                 "hosts")
      ->type_name("WHAT");
  app.add_flag("--torch", o.torch,
               "set RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and\n"
               "MASTER_PORT for ranks, as torch.distributed reads them");
  app.add_flag("--oversubscribe", raw.ignored, "has no effect: always allowed");
  app.add_flag("--allow-run-as-root", raw.ignored, "has no effect: always allowed");
}

void describe_hosts(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Several hosts (docs/hosts.md)");
  app.add_option("--remote-shell", raw.remote_shell,
                 "command that runs a command on the host that follows it\n"
                 "(default: srun in a Slurm allocation that names the hosts,\n"
                 "else ssh -o BatchMode=yes)")
      ->type_name("COMMAND");
  app.add_option("--listen", o.listen,
                 "wait at this port until an agent of each host has joined\n"
                 "(ftrun agent --join), instead of starting them: for hosts\n"
                 "that only connect outwards (docs/cluster.md). Port 0: any")
      ->type_name("[ADDRESS]:PORT");
  app.add_option("--secret-file", o.secret_file,
                 "with --listen: what agents have to know. Default: the\n"
                 "file that REJOIN_SECRET_FILE names, else ftrun makes one")
      ->type_name("FILE");
  app.add_option("--join-timeout", raw.join_timeout,
                 "with --listen: the time that agents have to join\n"
                 "(default: 300)")
      ->type_name("SECONDS");
  app.add_flag("--encrypt", o.encrypt,
               "encrypt what hosts send to each other: messages, and\n"
               "parts of snapshots (TLS 1.3). Orders and output are, with\n"
               "--listen, or by the remote shell (ssh). On one host it has\n"
               "no effect. Slower: docs/hosts.md");
}

void describe_snapshots(CLI::App& app, Raw& raw) {
  app.option_defaults()->group("Snapshots (docs/snapshots.md)");
  app.add_option("--snapshots", raw.snapshots,
                 "when ranks make an image of their process, from which\n"
                 "they go on if they die: auto (default: at most once a\n"
                 "second and 1 % of the time), the number of seconds\n"
                 "between two images, or off")
      ->type_name("WHEN");
  app.add_option("--snapshot-every", raw.snapshot_every,
                 "also make images when the journals of all ranks of a host\n"
                 "together have grown by this much (default: a 64th of\n"
                 "--journal-limit or of half of the memory, but 64M to 1G)")
      ->type_name("BYTES");
  app.add_option("--memory-for-images", raw.memory_for_images,
                 "if the images of all ranks together take more than\n"
                 "this, make new ones, which take none at first; if they\n"
                 "take a quarter more, end them (default: no bound)")
      ->type_name("BYTES");
}

void describe_deaths(CLI::App& app, Raw& raw) {
  app.option_defaults()->group("When a rank dies");
  app.add_option("--max-restarts", raw.max_restarts,
                 "largest number of restarts of one rank (default: 4)")
      ->type_name("N");
  app.add_flag("--no-restart", raw.no_restart, "end the job when a rank dies, as mpirun does");
  app.add_option("--survive", raw.survive,
                 "what the job survives: the loss of a process (default),\n"
                 "or of a host, too: each host's part of the snapshots is\n"
                 "kept by another host (docs/hosts.md)")
      ->type_name("WHAT");
  app.add_option("--lease", raw.lease,
                 "with --survive host or --checkpoint-dir: a host that is\n"
                 "silent for longer is lost, and ends its ranks by itself\n"
                 "(default: 5 with --survive host, else 60)")
      ->type_name("SECONDS");
  app.add_option("--spares", raw.spares,
                 "with --survive host or --checkpoint-dir: the last N\n"
                 "hosts of the list run no rank until another one is\n"
                 "lost")
      ->type_name("N");
  app.add_flag("--oversubscribe-on-loss", raw.options.beside,
               "the same: if no spare is left, the ranks of a lost host\n"
               "go on on another host of the job");
  app.add_flag("--begin-again", raw.begin_again,
               "if a dead rank cannot be started again, and there is\n"
               "nothing to go on from in --checkpoint-dir: all ranks\n"
               "begin again at the start of the program");
  app.add_option("--on-divergence", raw.on_divergence,
                 "if a replay is found to differ from the first execution:\n"
                 "rollback (default): all ranks go back to their snapshots;\n"
                 "stop the job; or warn, and go on with the recorded\n"
                 "results")
      ->type_name("WHAT");
  app.add_option("--libc-recording", raw.libc_recording,
                 "on (default) or off: record file checks, times, random\n"
                 "numbers and the place of appended output, and repeat\n"
                 "them after a restart")
      ->type_name("WHAT");
}

void describe_journal(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Journal");
  app.add_option("--journal-dir", o.journal_directory,
                 "place the journal in a file in DIR instead of in memory")
      ->type_name("DIR");
  app.add_option("--journal-limit", raw.journal_limit,
                 "most memory for the journals of all ranks (512M, 8G;\n"
                 "default: half of what is free). When they are full, the\n"
                 "job goes on, but a death ends it")
      ->type_name("BYTES");
  app.add_flag("--keep", o.keep,
               "write the journal to rejoin-JOB.journal at the end, in\n"
               "--journal-dir or the working directory");
}

void describe_checkpoints(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Checkpoints (docs/checkpoints.md)");
  app.add_option("--checkpoint-dir", o.checkpoint_directory,
                 "write the program's checkpoints to DIR, or images of\n"
                 "all ranks (docs/snapshots.md) if it makes none, so that\n"
                 "--resume can go on after the end of the whole job. The\n"
                 "newest two remain")
      ->type_name("DIR");
  app.add_option("--checkpoint-every", raw.images_every,
                 "time between two sets of written images (default: 10)")
      ->type_name("SECONDS");
  app.add_option("--keep-sets", raw.keep_sets,
                 "how many sets of written images are retained (default: 2)")
      ->type_name("N");
  app.add_flag("--compress", o.compress_sets, "compress sets of written images (zstd)");
  app.add_option("--grace", raw.grace,
                 "take SIGTERM for a notice, as batch systems, clouds and\n"
                 "Kubernetes give it: write the job's state to\n"
                 "--checkpoint-dir, for SECONDS at most, and end with exit\n"
                 "code 75. --resume goes on from there")
      ->type_name("SECONDS");
  app.add_flag("--resume", o.resume, "go on from the newest state in --checkpoint-dir");
  app.add_option("--bootstrap-limit", raw.bootstrap_limit,
                 "most memory for a rank's results of marked operations,\n"
                 "which it gets again after a restart (default: 256M)")
      ->type_name("BYTES");
}

void describe_watching(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Watching and testing");
  app.add_option("--events", o.events_path, "write every change of state as a line of JSON")
      ->type_name("FILE");
  app.add_option("--heartbeat", raw.heartbeat,
                 "time between two lines of --events about the job's\n"
                 "protection (default: 10)")
      ->type_name("SECONDS");
  app.add_flag("--log-ops", o.log_ops,
               "print a line for every operation when it is complete:\n"
               "[RANK] OPERATION (FILE:LINE::FUNCTION#ELEMENTxCOUNT)\n"
               "finished version V, seq S, take T seconds; with\n"
               "recovered instead of finished if it was replayed");
  app.add_option("--kill", raw.kills,
                 "let a rank kill itself at a point, for tests: POINT is\n"
                 "the number of an MPI operation (from 1), init or\n"
                 "finalize, with .before, .inside (default) or .after;\n"
                 "INCARNATION counts from 0 (default). If that\n"
                 "incarnation begins after the point (at a snapshot or a\n"
                 "checkpoint), it is killed in its next operation. A kill\n"
                 "that did not happen is an error")
      ->type_name("RANK@POINT[#INCARNATION]")
      ->allow_extra_args(false);
  app.add_flag("--core-dumps", o.core_dumps, "let ranks write core dumps (this delays recovery)");
  app.add_flag("-v,--verbose", o.verbose,
               "report when all ranks have images, and at the end what\n"
               "these have cost");
  app.add_flag("-q,--quiet", o.quiet, "do not report deaths and returns");
}

}  // namespace

void describe_program(CLI::App& app, RawProgram& raw) {
  app.option_defaults()->group(kMpirunGroup);
  app.add_option("-n,--np,--n", raw.ranks,
                 "number of ranks (default: SLURM_NTASKS, else the\n"
                 "processors)")
      ->type_name("N");
  app.add_option("--npernode", raw.on_each_host, "number of ranks on each host")->type_name("N");
  app.add_option("--nodes", raw.nodes,
                 "with --listen: number of hosts; each has the name that\n"
                 "its agent gives")
      ->type_name("N");
  app.add_option("-H,--host", raw.hosts,
                 "hosts, and their numbers of ranks: localhost:4, or\n"
                 "a:4,b:4 (docs/hosts.md); default: those of the\n"
                 "allocation of Slurm, PBS or LSF, else this machine")
      ->type_name("HOST[:N],...");
  app.add_option("--hostfile", raw.host_file,
                 "as --host, from a file with a host in each line: a:4, or\n"
                 "a slots=4")
      ->type_name("FILE");
  app.add_option("-x", raw.exports,
                 "set an environment variable of the ranks; can be given\n"
                 "several times")
      ->type_name("VAR[=VALUE]")
      ->allow_extra_args(false);
  app.add_option("--wdir,--wd", raw.working_directory, "run the program in this directory")
      ->type_name("DIR");
  app.add_option("--cpus-per-rank", raw.processors_each,
                 "bind each rank to N processors; also -c together with\n"
                 "-n, and --map-by ...:pe=N")
      ->type_name("N");
  app.add_option("--map-by", raw.mapping,
                 "on several hosts: slot (default): ranks fill them one\n"
                 "after the other; node: ranks go to them in turn")
      ->type_name("WHAT");
  app.option_defaults()->group("");  // they are not in the help
  app.add_option("-c", raw.c);
}

void describe_job(CLI::App& app, Raw& raw) {
  app.description(kDescription);
  app.footer(kFooter);
  describe_mpirun_options(app, raw);
  describe_hosts(app, raw);
  describe_deaths(app, raw);
  describe_journal(app, raw);
  describe_snapshots(app, raw);
  describe_checkpoints(app, raw);
  describe_watching(app, raw);
}

}  // namespace rejoin::launcher
