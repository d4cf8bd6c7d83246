#include "launcher/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string_view>

#include "journal/layout.h"

namespace rejoin::launcher {
namespace {

// mpirun's long options that people write with one dash.
constexpr std::string_view kSingleDash[] = {
    "-np",
    "-wdir",
    "-wd",
    "-tag-output",
    "-bind-to",
    "-timeout",
    "-oversubscribe",
    "-allow-run-as-root",
};

constexpr const char* kDescription =
    "ftrun - run an MPI program that outlives its ranks\n"
    "\n"
    "  ftrun [OPTIONS] PROGRAM [ARGUMENTS...]\n"
    "  ftrun inspect FILE [--rank R] [--limit N]     print a journal kept with --keep\n"
    "\n"
    "A rank that dies is started again; it repeats its past from a journal in shared\n"
    "memory and rejoins the others, who waited. The program is any one built for Open MPI\n"
    "4 or 5 (libmpi.so.40), unchanged, or built with ftmpicc.";

constexpr const char* kFooter =
    "Examples:\n"
    "  ftrun -n 4 ./a.out input.dat            four ranks, up to four restarts of each\n"
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

// The description says how to call it.
class HelpText : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return "\n"; }
};

std::string help_of(const CLI::App& app) {
  std::string text = app.help();
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

Error usage(const std::string& text) { return {text, kExitUsage}; }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// "unknown option --foo; did you mean --fo?"
Error unknown_option(const CLI::App& app, const std::string& word) {
  std::string best;
  std::size_t best_distance = 3;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::size_t distance = edit_distance(word, "--" + name);
      if (distance < best_distance) {
        best_distance = distance;
        best = "--" + name;
      }
    }
  }
  return usage("unknown option " + word + "; " +
               (best.empty() ? "ftrun -h lists what there is" : "did you mean " + best + "?"));
}

// Values as they come from the command line, before they are looked at.
struct Raw {
  RunOptions options;
  std::string ranks;
  std::vector<std::string> exports;
  std::vector<std::string> kills;
  std::string journal_limit;
  std::string bootstrap_limit;
  std::string images_every;
  std::string snapshots = "auto";
  std::string snapshot_every;
  std::string on_divergence = "stop";
  std::string libc_recording = "on";
  std::string binding = "auto";
  std::string timeout;
  bool no_restart = false;
  bool ignored = false;
};

void describe_mpirun_options(CLI::App& app, Raw& raw) {
  const std::string group = "As under mpirun";
  RunOptions& o = raw.options;
  app.add_option("-n,--np,--n", raw.ranks, "number of ranks (default: the processors)")
      ->type_name("N")
      ->group(group);
  app.add_option("-x", raw.exports, "set an environment variable of the ranks; repeatable")
      ->type_name("VAR[=VALUE]")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--wdir,--wd", o.working_directory, "run the program in this directory")
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--tag-output", o.tag_output, "begin each line of output with [RANK]<stdout>:")
      ->group(group);
  app.add_option("--bind-to", raw.binding,
                 "core, socket, none or auto (default): a processor\n"
                 "each if the ranks fill more than half of them, else none")
      ->type_name("WHAT")
      ->group(group);
  app.add_option("--timeout", raw.timeout, "after so long, print where every rank stands and stop")
      ->type_name("SECONDS")
      ->group(group);
  app.add_flag("--oversubscribe", raw.ignored, "allowed always")->group(group);
  app.add_flag("--allow-run-as-root", raw.ignored, "allowed always")->group(group);
}

void describe_snapshots(CLI::App& app, Raw& raw) {
  const std::string snapshots = "Snapshots (docs/snapshots.md)";
  app.add_option("--snapshots", raw.snapshots,
                 "how often ranks make an image of their process, from\n"
                 "which they go on if they die: auto (default: at most 1 %\n"
                 "of the time, each second at most), every so many seconds,\n"
                 "or off")
      ->type_name("WHEN")
      ->group(snapshots);
  app.add_option("--snapshot-every", raw.snapshot_every,
                 "and when all ranks together have added so much to their\n"
                 "journals (default: 64M)")
      ->type_name("BYTES")
      ->group(snapshots);
}

void describe_deaths(CLI::App& app, Raw& raw) {
  const std::string deaths = "When a rank dies";
  app.add_option("--max-restarts", raw.options.max_restarts,
                 "how often one rank is started again (default 4)")
      ->type_name("N")
      ->group(deaths);
  app.add_flag("--no-restart", raw.no_restart, "end the job, as mpirun does")->group(deaths);
  app.add_option("--on-divergence", raw.on_divergence,
                 "if a replay is found to differ from the first execution:\n"
                 "stop (default), or warn and go on with what is recorded")
      ->type_name("WHAT")
      ->group(deaths);
  app.add_option("--libc-recording", raw.libc_recording,
                 "on (default) or off: repeat file checks, time, random\n"
                 "numbers and the place of appended output")
      ->type_name("WHAT")
      ->group(deaths);
}

void describe_journal(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  const std::string journal = "Journal";
  app.add_option("--journal-dir", o.journal_directory,
                 "keep the journal in a file there instead of in memory")
      ->type_name("DIR")
      ->group(journal);
  app.add_option("--journal-limit", raw.journal_limit,
                 "most memory for the journals of all ranks (512M, 8G;\n"
                 "default: half of what is free); a death after that\n"
                 "ends the job")
      ->type_name("BYTES")
      ->group(journal);
  app.add_flag("--keep", o.keep,
               "leave the journal as rejoin-JOB.journal in\n"
               "--journal-dir, or here")
      ->group(journal);
}

void describe_checkpoints(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  const std::string checkpoints = "Checkpoints (docs/checkpoints.md)";
  app.add_option("--checkpoint-dir", o.checkpoint_directory,
                 "for a job that ends as a whole: write the program's\n"
                 "checkpoints there, too; of one that makes none, images\n"
                 "of all ranks (docs/snapshots.md); the newest two are\n"
                 "kept")
      ->type_name("DIR")
      ->group(checkpoints);
  app.add_option("--checkpoint-every", raw.images_every,
                 "how often images are written there (default: 10)")
      ->type_name("SECONDS")
      ->group(checkpoints);
  app.add_flag("--resume", o.resume, "go on from the newest in --checkpoint-dir")
      ->group(checkpoints);
  app.add_option("--bootstrap-limit", raw.bootstrap_limit,
                 "most that a rank keeps of marked operations, which a\n"
                 "restarted rank is given again (default: 256M)")
      ->type_name("BYTES")
      ->group(checkpoints);
}

void describe_watching(CLI::App& app, Raw& raw) {
  RunOptions& o = raw.options;
  const std::string watching = "Watching and testing";
  app.add_option("--events", o.events_path, "write every change of state as a line of JSON")
      ->type_name("FILE")
      ->group(watching);
  app.add_flag("--log-ops", o.log_ops,
               "print a line for every operation when it is over:\n"
               "[RANK] OPERATION (FILE:LINE::FUNCTION#ELEMENTxCOUNT)\n"
               "finished version V, seq S, take T seconds; recovered\n"
               "instead of finished: the journal had its result")
      ->group(watching);
  app.add_option("--kill", raw.kills,
                 "let a rank kill itself there: POINT is the number of\n"
                 "an MPI operation (from 1), init or finalize, with\n"
                 ".before, .inside (default) or .after; INCARNATION\n"
                 "counts from 0 (default). If that one goes on behind\n"
                 "the point (from a snapshot or a checkpoint), the next\n"
                 "operation it is. One that does not fire is an error")
      ->type_name("RANK@POINT[#INCARNATION]")
      ->allow_extra_args(false)
      ->group(watching);
  app.add_flag("--core-dumps", o.core_dumps, "let ranks dump core (delays recovery)")
      ->group(watching);
  app.add_flag("-q,--quiet", o.quiet, "say nothing about deaths and returns")->group(watching);
}

void describe_own_options(CLI::App& app, Raw& raw) {
  describe_deaths(app, raw);
  describe_journal(app, raw);
  describe_snapshots(app, raw);
  describe_checkpoints(app, raw);
  describe_watching(app, raw);
}

// The command line with mpirun's spellings in ours, split where the program begins.
struct Split {
  std::vector<std::string> options;
  std::vector<std::string> command;
};

Result<Split> split(const CLI::App& app, int argc, const char* const* argv) {
  Split result;
  int i = 1;
  for (; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    if (std::find(std::begin(kSingleDash), std::end(kSingleDash), word) != std::end(kSingleDash)) {
      word.insert(0, "-");
    }
    const bool is_long = word.starts_with("--");
    const std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) return unknown_option(app, is_long ? name : word);
    const bool has_value_inside = is_long ? name.size() < word.size() : word.size() > 2;
    const bool takes_value = option->get_items_expected_max() > 0;
    if (!takes_value && has_value_inside && is_long) return usage(name + " takes no value");
    if (!takes_value && has_value_inside) return unknown_option(app, word);
    result.options.push_back(word);
    if (takes_value && !has_value_inside) {
      if (++i >= argc) return usage(name + " needs a value");
      // As one word: a value may begin with a dash.
      result.options.back() += (is_long ? "=" : "") + std::string(argv[i]);
    }
  }
  for (; i < argc; ++i) result.command.emplace_back(argv[i]);
  return result;
}

Result<std::uint32_t> parse_ranks(const std::string& text) {
  const std::string range = "1 to " + std::to_string(engine::kMaxRanks);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) return usage("-n " + text + ": not a number of ranks; give one from " + range);
  if (text.size() > 9 || std::stoul(text) < 1 || std::stoul(text) > engine::kMaxRanks) {
    return usage("-n " + text + ": a job has " + range + " ranks");
  }
  return static_cast<std::uint32_t>(std::stoul(text));
}

Result<double> parse_timeout_s(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds > 0) || !(seconds <= 1e9)) {
    return usage("--timeout " + text + ": not a time; give seconds, more than 0");
  }
  return seconds;
}

// One of `words`, by its index.
Result<int> parse_choice(const std::string& option, const std::string& text,
                         const std::vector<std::string>& words) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return usage(option + " " + text + ": not known; it is one of " + all);
}

std::optional<Error> parse_snapshots(const std::string& text, SnapshotOptions& snapshots) {
  using When = SnapshotOptions::When;
  if (text == "auto" || text == "off") {
    snapshots.when = text == "off" ? When::kOff : When::kAuto;
    return {};
  }
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 1e-3) || !(seconds <= 1e6)) {
    return usage("--snapshots " + text + ": auto, off, or seconds from 0.001 on");
  }
  snapshots.when = When::kPeriod;
  snapshots.period_ns = static_cast<std::uint64_t>(seconds * 1e9);
  return {};
}

std::optional<Error> parse_images_every(const std::string& text, RunOptions& o) {
  if (text.empty()) return {};
  char* end = nullptr;
  o.images_every_s = std::strtod(text.c_str(), &end);
  const bool good = *end == '\0' && o.images_every_s >= 1e-3 && o.images_every_s <= 1e9;
  if (!good)
    return usage("--checkpoint-every " + text + ": not a time; give seconds from 0.001 on");
  if (o.checkpoint_directory.empty()) {
    return usage("--checkpoint-every: say where with --checkpoint-dir DIR");
  }
  return {};
}

Result<Command> finish(Raw& raw) {
  RunOptions& o = raw.options;
  if (!raw.ranks.empty()) {
    const auto ranks = parse_ranks(raw.ranks);
    if (!ranks.ok()) return ranks.error();
    o.ranks = ranks.value();
  }
  for (const std::string& text : raw.exports) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || text.empty()) return usage("-x " + text + ": there is no name before =");
    if (equals == std::string::npos) {
      o.exports.emplace_back(text, std::nullopt);
    } else {
      o.exports.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  const auto binding = parse_choice("--bind-to", raw.binding, {"auto", "none", "core", "socket"});
  if (!binding.ok()) return binding.error();
  o.binding = static_cast<Binding>(binding.value());
  const auto divergence = parse_choice("--on-divergence", raw.on_divergence, {"stop", "warn"});
  if (!divergence.ok()) return divergence.error();
  o.stop_on_divergence = divergence.value() == 0;
  const auto libc_recording = parse_choice("--libc-recording", raw.libc_recording, {"on", "off"});
  if (!libc_recording.ok()) return libc_recording.error();
  o.libc_recording = libc_recording.value() == 0;
  o.restart = !raw.no_restart;
  if (!raw.timeout.empty()) {
    const auto timeout = parse_timeout_s(raw.timeout);
    if (!timeout.ok()) return timeout.error();
    o.timeout_s = timeout.value();
  }
  if (o.resume && o.checkpoint_directory.empty()) {
    return usage("--resume: say where with --checkpoint-dir DIR");
  }
  if (const auto error = parse_images_every(raw.images_every, o)) return *error;
  if (!raw.bootstrap_limit.empty()) {
    const auto limit = parse_size_bytes(raw.bootstrap_limit);
    if (!limit.ok()) return usage("--bootstrap-limit: " + limit.error().text);
    o.bootstrap_limit_bytes = limit.value();
  }
  if (const auto error = parse_snapshots(raw.snapshots, o.snapshots)) return *error;
  if (!raw.snapshot_every.empty()) {
    const auto every = parse_size_bytes(raw.snapshot_every);
    if (!every.ok()) return usage("--snapshot-every: " + every.error().text);
    o.snapshots.every_bytes = every.value();
  }
  if (!o.restart) o.snapshots.when = SnapshotOptions::When::kOff;
  if (!raw.journal_limit.empty()) {
    const auto limit = parse_size_bytes(raw.journal_limit);
    if (!limit.ok()) return usage("--journal-limit: " + limit.error().text);
    o.journal_limit_bytes = limit.value();
  }
  if (raw.kills.size() > engine::kMaxFaults) {
    return usage("more than " + std::to_string(engine::kMaxFaults) + " --kill");
  }
  for (const std::string& text : raw.kills) {
    const auto kill = parse_kill(text);
    if (!kill.ok()) return kill.error();
    o.kills.push_back(kill.value());
  }
  return Command(std::move(o));
}

// What CLI11 found wrong, in one line.
Error from_cli(const CLI::Error& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return usage(text + "; ftrun -h lists what there is");
}

Result<Command> parse_run(int argc, const char* const* argv) {
  CLI::App app(kDescription);
  Raw raw;
  bool version = false;
  describe_mpirun_options(app, raw);
  describe_own_options(app, raw);
  app.add_flag("-V,--version", version, "print the version")->group("Other");
  app.set_help_flag("-h,--help", "print this")->group("Other");
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpText>());
  app.get_formatter()->column_width(34);

  auto words = split(app, argc, argv);
  if (!words.ok()) return words.error();
  std::reverse(words.value().options.begin(), words.value().options.end());
  try {
    app.parse(words.value().options);
  } catch (const CLI::CallForHelp&) {
    return Command(Answer{help_of(app)});
  } catch (const CLI::ParseError& error) {
    return from_cli(error);
  }
  if (version) return Command(Answer{"ftrun (Rejoin) " REJOIN_VERSION "\n"});
  raw.options.command = std::move(words.value().command);
  if (raw.options.command.empty()) {
    return usage("there is no program to run; write ftrun -n 4 PROGRAM ARGUMENTS");
  }
  return finish(raw);
}

Result<Command> parse_inspect(int argc, const char* const* argv) {
  CLI::App app("ftrun inspect - print the journals of a job that was run with --keep");
  InspectOptions options;
  app.set_help_flag("-h,--help", "print this");
  app.add_option("FILE", options.file, "rejoin-JOB.journal")->required();
  app.add_option("--rank", options.rank, "only this rank")->type_name("R");
  app.add_option("--limit", options.limit, "at most so many records of each communicator")
      ->type_name("N");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    return Command(Answer{app.help()});
  } catch (const CLI::ExtrasError& error) {
    return usage(std::string("inspect: ") + error.what() +
                 "; ftrun inspect FILE prints one journal at a time");
  } catch (const CLI::ParseError& error) {
    return usage(std::string("inspect: ") + error.what() + "; write ftrun inspect FILE");
  }
  return Command(std::move(options));
}

}  // namespace

Result<Command> parse_command_line(int argc, const char* const* argv) {
  if (argc > 1 && std::string_view(argv[1]) == "inspect") return parse_inspect(argc, argv);
  return parse_run(argc, argv);
}

}  // namespace rejoin::launcher
