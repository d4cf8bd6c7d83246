#include "launcher/cli/raw_options.h"

namespace rejoin::launcher {
namespace {

constexpr const char* kDescription =
    "Usage: ftrun [OPTIONS] PROGRAM [ARGUMENTS...]\n"
    "  or:  ftrun [OPTIONS] -n 1 PROGRAM [ARGUMENTS...] : -n 3 OTHER [ARGUMENTS...]\n"
    "  or:  ftrun check PROGRAM\n"
    "  or:  ftrun inspect FILE... [--rank R] [--json]\n"
    "\n"
    "Runs an MPI program that outlives its ranks; says what would fail before it runs; prints\n"
    "journals that were kept with --keep.\n"
    "\n"
    "A rank that dies is started again; it repeats its past from a journal in shared\n"
    "memory and rejoins the others, who waited. The program is any one built for Open MPI\n"
    "4 or 5 (libmpi.so.40), unchanged, or built with ftmpicc.";

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
    "                                          journal stays, for ftrun inspect\n"
    "\n"
    "Signals: INT, TERM, HUP and QUIT end the job (a second one at once); USR1 prints where\n"
    "every rank stands; USR2 is passed on; TSTP stops ranks and ftrun until CONT.\n"
    "\n"
    "Exit code: the program's (the first that is not 0), 128+N after signal N, MPI_Abort's\n"
    "code, 110 after --timeout, 126 and 127 if the program cannot be run or found, 2 for\n"
    "wrong usage, 1 for everything else.";

constexpr const char* kMpirunGroup = "As under mpirun";

void describe_mpirun_options(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group(kMpirunGroup);
  app.add_flag("--tag-output", o.output.tagged, "begin each line of output with [RANK]<stdout>:");
  app.add_flag("--timestamp-output", o.output.timed, "begin each line with the time");
  app.add_flag("--merge-stderr-to-stdout", o.output.merged,
               "what ranks print to either goes to standard output");
  app.add_option("--output-filename", raw.output_directory,
                 "write it also to DIR/rank.R/stdout and stderr; only\n"
                 "there with DIR:nocopy")
      ->type_name("DIR[:nocopy]");
  app.add_option("--stdin", raw.standard_input,
                 "who reads ftrun's standard input: 0 (default) or none")
      ->type_name("RANK");
  app.add_option("--bind-to", raw.binding,
                 "hwthread, core, l1cache, l2cache, l3cache, numa,\n"
                 "socket, none or auto (default): a processor each if\n"
                 "the ranks fill more than half of them, else none")
      ->type_name("WHAT");
  app.add_flag("--report-bindings", o.report_bindings, "print on which processors each rank runs");
  app.add_option("--cpu-set", raw.processors, "use only these processors: 0-3,6")
      ->type_name("LIST");
  app.add_option("--timeout", raw.timeout, "after so long, print where every rank stands and stop")
      ->type_name("SECONDS");
  app.add_flag("--torch", o.torch,
               "give ranks RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR\n"
               "and MASTER_PORT, as torch.distributed reads them");
  app.add_flag("--oversubscribe", raw.ignored, "allowed always");
  app.add_flag("--allow-run-as-root", raw.ignored, "allowed always");
}

void describe_snapshots(CLI::App& app, Raw& raw) {
  app.option_defaults()->group("Snapshots (docs/snapshots.md)");
  app.add_option("--snapshots", raw.snapshots,
                 "how often ranks make an image of their process, from\n"
                 "which they go on if they die: auto (default: at most 1 %\n"
                 "of the time, each second at most), every so many seconds,\n"
                 "or off")
      ->type_name("WHEN");
  app.add_option("--snapshot-every", raw.snapshot_every,
                 "and when all ranks together have added so much to their\n"
                 "journals (default: 64M, at most a quarter of the\n"
                 "journal's limit)")
      ->type_name("BYTES");
}

void describe_deaths(CLI::App& app, Raw& raw) {
  app.option_defaults()->group("When a rank dies");
  app.add_option("--max-restarts", raw.options.max_restarts,
                 "how often one rank is started again (default 4)")
      ->type_name("N");
  app.add_flag("--no-restart", raw.no_restart, "end the job, as mpirun does");
  app.add_option("--on-divergence", raw.on_divergence,
                 "if a replay is found to differ from the first execution:\n"
                 "stop (default), or warn and go on with what is recorded")
      ->type_name("WHAT");
  app.add_option("--libc-recording", raw.libc_recording,
                 "on (default) or off: repeat file checks, time, random\n"
                 "numbers and the place of appended output")
      ->type_name("WHAT");
}

void describe_journal(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Journal");
  app.add_option("--journal-dir", o.journal_directory,
                 "keep the journal in a file there instead of in memory")
      ->type_name("DIR");
  app.add_option("--journal-limit", raw.journal_limit,
                 "most memory for the journals of all ranks (512M, 8G;\n"
                 "default: half of what is free); a death after that\n"
                 "ends the job")
      ->type_name("BYTES");
  app.add_flag("--keep", o.keep,
               "leave the journal as rejoin-JOB.journal in\n"
               "--journal-dir, or here");
}

void describe_checkpoints(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Checkpoints (docs/checkpoints.md)");
  app.add_option("--checkpoint-dir", o.checkpoint_directory,
                 "for a job that ends as a whole: write the program's\n"
                 "checkpoints there, too; of one that makes none, images\n"
                 "of all ranks (docs/snapshots.md); the newest two are\n"
                 "kept")
      ->type_name("DIR");
  app.add_option("--checkpoint-every", raw.images_every,
                 "how often images are written there (default: 10)")
      ->type_name("SECONDS");
  app.add_flag("--resume", o.resume, "go on from the newest in --checkpoint-dir");
  app.add_option("--bootstrap-limit", raw.bootstrap_limit,
                 "most that a rank keeps of marked operations, which a\n"
                 "restarted rank is given again (default: 256M)")
      ->type_name("BYTES");
}

void describe_watching(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  app.option_defaults()->group("Watching and testing");
  app.add_option("--events", o.events_path, "write every change of state as a line of JSON")
      ->type_name("FILE");
  app.add_option("--heartbeat", raw.heartbeat,
                 "and how far the job is protected, so often (default:\n"
                 "10)")
      ->type_name("SECONDS");
  app.add_flag("--log-ops", o.log_ops,
               "print a line for every operation when it is over:\n"
               "[RANK] OPERATION (FILE:LINE::FUNCTION#ELEMENTxCOUNT)\n"
               "finished version V, seq S, take T seconds; recovered\n"
               "instead of finished: the journal had its result");
  app.add_option("--kill", raw.kills,
                 "let a rank kill itself there: POINT is the number of\n"
                 "an MPI operation (from 1), init or finalize, with\n"
                 ".before, .inside (default) or .after; INCARNATION\n"
                 "counts from 0 (default). If that one goes on behind\n"
                 "the point (from a snapshot or a checkpoint), the next\n"
                 "operation it is. One that does not fire is an error")
      ->type_name("RANK@POINT[#INCARNATION]")
      ->allow_extra_args(false);
  app.add_flag("--core-dumps", o.core_dumps, "let ranks dump core (delays recovery)");
  app.add_flag("-v,--verbose", o.verbose,
               "say when ranks are protected by images, and at the end\n"
               "what these have cost");
  app.add_flag("-q,--quiet", o.quiet, "say nothing about deaths and returns");
}

}  // namespace

void describe_program(CLI::App& app, RawProgram& raw) {
  app.option_defaults()->group(kMpirunGroup);
  app.add_option("-n,--np,--n", raw.ranks,
                 "number of ranks (default: SLURM_NTASKS, else the\n"
                 "processors)")
      ->type_name("N");
  app.add_option("--npernode", raw.on_each_host, "the same, on each host; there is one")
      ->type_name("N");
  app.add_option("-H,--host", raw.hosts,
                 "hosts, and how many ranks on each: localhost:4. Only\n"
                 "this one so far")
      ->type_name("HOST[:N]");
  app.add_option("--hostfile", raw.host_file,
                 "the same from a file, a host a line: localhost slots=4")
      ->type_name("FILE");
  app.add_option("-x", raw.exports, "set an environment variable of the ranks; repeatable")
      ->type_name("VAR[=VALUE]")
      ->allow_extra_args(false);
  app.add_option("--wdir,--wd", raw.working_directory, "run the program in this directory")
      ->type_name("DIR");
  app.add_option("--cpus-per-rank", raw.processors_each,
                 "bind each rank to so many processors; also -c beside\n"
                 "-n, and --map-by ...:pe=N")
      ->type_name("N");
  app.option_defaults()->group("");  // they are not in the help
  app.add_option("--map-by", raw.mapping);
  app.add_option("--nodes", raw.nodes);
  app.add_option("-c", raw.c);
}

void describe_job(CLI::App& app, Raw& raw) {
  app.description(kDescription);
  app.footer(kFooter);
  describe_mpirun_options(app, raw);
  describe_deaths(app, raw);
  describe_journal(app, raw);
  describe_snapshots(app, raw);
  describe_checkpoints(app, raw);
  describe_watching(app, raw);
}

}  // namespace rejoin::launcher
