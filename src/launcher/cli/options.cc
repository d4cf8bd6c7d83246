#include "launcher/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string_view>
#include <tuple>

#include "journal/layout.h"
#include "launcher/agent/machine.h"
#include "launcher/agent/snapshot_policy.h"
#include "launcher/cli/hosts.h"
#include "launcher/cli/join_options.h"
#include "launcher/cli/mapping.h"
#include "launcher/cli/raw_options.h"
#include "launcher/cli/translations.h"

namespace rejoin::launcher {
namespace {

// Omits the usage line, because the description says how to call ftrun.
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

// "unknown option --foo; did you mean --fo?" Short words get no suggestion.
Error unknown_option(const CLI::App& app, const std::string& word) {
  std::string best;
  std::size_t best_distance = word.size() > 4 ? 3 : 0;
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
               (best.empty() ? "ftrun -h lists the options" : "did you mean " + best + "?"));
}

// The command line, with mpirun's option names translated, split where the program begins.
struct Split {
  std::vector<std::string> options;
  std::vector<std::string> command;
  std::vector<std::string> notices;
};

using Words = std::vector<std::string>;

// Translates option words[i] and its values; i is then the index of the last of them.
std::optional<Error> translate(const Translation& t, const Words& words, std::size_t& i,
                               Split& result) {
  const std::string name(t.theirs);
  const std::string& word = words[i];
  std::string value;
  unsigned missing = t.values;
  if (word.size() > name.size()) {
    const bool may_have_one = t.values == 0 && t.ours.empty();
    if (t.values != 1 && !may_have_one) return usage(name + " does not take a value after =");
    value = word.substr(name.size() + 1);
    if (value.empty()) return usage(name + ": its value is empty");
    missing = 0;
  }
  for (unsigned taken = 0; taken < missing; ++taken) {
    if (++i >= words.size()) return usage(name + " needs a value");
    if (taken == 0 && words[i].empty()) return usage(name + ": its value is empty");
    value += (taken > 0 ? "=" : "") + words[i];
  }
  const std::string given = name + (value.empty() ? "" : " " + value);
  if (t.refused) return usage(given + ": not an option of ftrun; " + std::string(t.notice));
  if (!t.notice.empty()) {
    result.notices.push_back(given + (t.ours.empty() ? " has no effect: " : ": ") +
                             std::string(t.notice));
  }
  if (t.ours.empty()) return {};
  const bool is_long = t.ours.starts_with("--");
  result.options.push_back(std::string(t.ours) + (is_long && t.values > 0 ? "=" : "") + value);
  return {};
}

Result<Split> split(const CLI::App& app, const Words& words) {
  Split result;
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    if (const Translation* t = find_translation(word.substr(0, word.find('=')))) {
      if (const auto error = translate(*t, words, i, result)) return *error;
      continue;
    }
    const bool is_long = word.starts_with("--");
    const std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr) return unknown_option(app, is_long ? name : word);
    const bool has_value_inside = is_long ? name.size() < word.size() : word.size() > 2;
    const bool takes_value = option->get_items_expected_max() > 0;
    if (!takes_value && has_value_inside && is_long) return usage(name + " does not take a value");
    if (is_long && word.size() == name.size() + 1) return usage(name + ": its value is empty");
    if (!takes_value && has_value_inside) return unknown_option(app, word);
    result.options.push_back(word);
    if (takes_value && !has_value_inside) {
      if (++i >= words.size()) return usage(name + " needs a value");
      // Option and value become one word, because a value may begin with a dash.
      result.options.back() += (is_long ? "=" : "") + words[i];
      if (words[i].empty()) return usage(name + ": its value is empty");
    }
  }
  for (; i < words.size(); ++i) result.command.push_back(words[i]);
  return result;
}

// Splits the command line at each argument ":".
std::vector<Words> split_programs(int argc, const char* const* argv) {
  std::vector<Words> programs(1);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == ":") {
      programs.emplace_back();
    } else {
      programs.back().emplace_back(argv[i]);
    }
  }
  return programs;
}

// Returns nanoseconds. `range`: the end of the error, which says what the option takes.
Result<std::uint64_t> parse_seconds(const std::string& option, const std::string& text,
                                    double least_s, double most_s, const std::string& range) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= least_s) || !(seconds <= most_s)) {
    return usage(option + " " + text + ": " + range);
  }
  return static_cast<std::uint64_t>(seconds * 1e9);
}
constexpr const char* kSomeTime = "not a time; give a number of seconds from 0.001 to 1e9";

// Returns the index of `text` in `words`.
Result<int> parse_choice(const std::string& option, const std::string& text,
                         const std::vector<std::string>& words) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return usage(option + " " + text + ": not known; give one of " + all);
}

std::optional<Error> parse_snapshots(const std::string& text, SnapshotOptions& snapshots) {
  using When = SnapshotOptions::When;
  if (text == "auto" || text == "off") {
    snapshots.when = text == "off" ? When::kOff : When::kAuto;
    return {};
  }
  const auto period = parse_seconds("--snapshots", text, 1e-3, 1e6,
                                    "give auto, off, or a number of seconds from 0.001 to 1e6");
  if (!period.ok()) return period.error();
  snapshots.when = When::kPeriod;
  snapshots.period_ns = period.value();
  return {};
}

// The options of --checkpoint-dir.
std::optional<Error> finish_checkpoints(const Raw& raw, RunOptions& o) {
  const std::pair<bool, const char*> of_directory[] = {
      {o.resume, "--resume"},
      {!raw.images_every.empty(), "--checkpoint-every"},
      {!raw.keep_sets.empty(), "--keep-sets"},
      {!raw.grace.empty(), "--grace"},
      {o.compress_sets, "--compress"}};
  for (const auto& [given, name] : of_directory) {
    if (!given || !o.checkpoint_directory.empty()) continue;
    return usage(std::string(name) + " needs --checkpoint-dir DIR");
  }
  if (!raw.images_every.empty()) {
    const auto period = parse_seconds("--checkpoint-every", raw.images_every, 1e-3, 1e9, kSomeTime);
    if (!period.ok()) return period.error();
    o.image_period_ns = period.value();
  }
  if (!raw.keep_sets.empty()) {
    const auto kept = parse_number("--keep-sets", raw.keep_sets, "number of sets", 1, 1'000'000);
    if (!kept.ok()) return kept.error();
    o.sets_kept = static_cast<std::uint32_t>(kept.value());
  }
  if (!raw.grace.empty()) {
    const auto grace = parse_seconds("--grace", raw.grace, 1e-3, 1e9, kSomeTime);
    if (!grace.ok()) return grace.error();
    o.grace_ns = grace.value();
  }
  return {};
}

std::optional<Error> read_size(const char* option, const std::string& text, std::uint64_t& bytes) {
  if (text.empty()) return {};
  const auto size = parse_size_bytes(text);
  if (!size.ok()) return usage(std::string(option) + ": " + size.error().text);
  bytes = size.value();
  return {};
}

Result<std::uint64_t> parse_processors_each(const std::string& option, const std::string& text) {
  return parse_number(option, text, "number of processors for each rank", 1, CPU_SETSIZE);
}

// Reads -c, which is the number of ranks for mpirun and the number of processors of each rank for
// srun.
void read_c(RawProgram& raw, std::vector<std::string>& notices) {
  if (raw.ranks.empty() && raw.on_each_host.empty() && getenv("SLURM_NTASKS") == nullptr) {
    raw.ranks = raw.c;
    raw.ranks_option = "-c";
    notices.push_back("-c " + raw.c +
                      " without -n is the number of ranks, as under mpirun; srun's "
                      "-c is --cpus-per-task");
  } else {
    raw.processors_each = raw.c;
    raw.processors_option = "-c";
  }
}

Result<ProgramOptions> finish_program(RawProgram& raw, Words command, HostOptions hosts,
                                      std::vector<std::string>& notices) {
  ProgramOptions program;
  program.command = std::move(command);
  program.working_directory = std::move(raw.working_directory);
  const bool is_one =
      raw.nodes.empty() || raw.nodes == "1" || raw.nodes == "1-1" || raw.nodes == "1:1";
  if (hosts == HostOptions::kRead && !is_one) {
    return usage("--nodes " + raw.nodes +
                 ": name the hosts with --host or --hostfile, and the number of ranks with -n");
  }
  if (!raw.mapping.empty()) {
    if (const auto error = read_mapping(raw, notices)) return *error;
    program.by_node = raw.by_node;
  }
  if (!raw.c.empty()) read_c(raw, notices);
  if (!raw.processors_each.empty()) {
    const auto each = parse_processors_each(raw.processors_option, raw.processors_each);
    if (!each.ok()) return each.error();
    program.processors_each = static_cast<std::uint32_t>(each.value());
  }
  if (hosts != HostOptions::kKnown) {
    const bool join = hosts == HostOptions::kJoin;
    if (const auto error = read_hosts(raw, join, program)) return *error;
  }
  for (const std::string& text : raw.exports) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || text.empty())
      return usage("-x " + text + ": there is no name in front of =");
    if (equals == std::string::npos) {
      program.exports.emplace_back(text, std::nullopt);
    } else {
      program.exports.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return program;
}

Result<cpu_set_t> parse_processors(const std::string& text) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const Error wrong = usage("--cpu-set " + text + ": not a list of processors, such as 0-3,6");
  for (const char* at = text.c_str();; ++at) {
    char* end = nullptr;
    if (*at < '0' || *at > '9') return wrong;
    const unsigned long first = strtoul(at, &end, 10);
    unsigned long last = first;
    if (*end == '-') {
      at = end + 1;
      if (*at < '0' || *at > '9') return wrong;
      last = strtoul(at, &end, 10);
    }
    if (first > last || last >= CPU_SETSIZE) return wrong;
    for (unsigned long i = first; i <= last; ++i) CPU_SET(i, &set);
    if (*end == '\0') return set;
    if (*end != ',') return wrong;
    at = end;
  }
}

std::optional<Error> finish_output(const Raw& raw, RunOptions& o) {
  constexpr std::string_view kNoCopy = ":nocopy";
  o.output.directory = raw.output_directory;
  if (o.output.directory.ends_with(kNoCopy)) {
    o.output.directory.resize(o.output.directory.size() - kNoCopy.size());
    o.output.shown = false;
  }
  if (!raw.output_directory.empty() && o.output.directory.empty()) {
    return usage("--output-filename " + raw.output_directory + ": give the name of a directory");
  }
  if (raw.standard_input == "none") {
    o.standard_input = false;
  } else if (!raw.standard_input.empty() && raw.standard_input != "0") {
    return usage("--stdin " + raw.standard_input +
                 ": only rank 0 can read standard input; give 0 or none");
  }
  if (raw.processors.empty()) return {};
  const auto processors = parse_processors(raw.processors);
  if (!processors.ok()) return processors.error();
  o.processors = processors.value();
  return {};
}

std::optional<Error> finish_recovery(const Raw& raw, RunOptions& o) {
  const auto divergence =
      parse_choice("--on-divergence", raw.on_divergence, {"rollback", "stop", "warn"});
  if (!divergence.ok()) return divergence.error();
  o.on_divergence = static_cast<OnDivergence>(divergence.value());
  const auto libc_recording = parse_choice("--libc-recording", raw.libc_recording, {"on", "off"});
  if (!libc_recording.ok()) return libc_recording.error();
  o.libc_recording = libc_recording.value() == 0;
  o.restart = !raw.no_restart;
  o.begin_again = raw.begin_again;
  if (!raw.max_restarts.empty()) {
    const auto restarts =
        parse_number("--max-restarts", raw.max_restarts, "number of restarts", 0, UINT32_MAX);
    if (!restarts.ok()) return restarts.error();
    o.max_restarts = static_cast<std::uint32_t>(restarts.value());
  }
  return {};
}

// Parses --layout: "4,4".
std::optional<Error> read_layout(const std::string& text, std::vector<std::uint32_t>& layout) {
  std::uint64_t all = 0;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto ranks = parse_ranks("--layout " + text + ":", text.substr(at, end - at));
    if (!ranks.ok()) return ranks.error();
    layout.push_back(static_cast<std::uint32_t>(ranks.value()));
    all += ranks.value();
    at = end + 1;
  }
  if (all <= journal::kMaxRanks) return {};
  return usage("--layout " + text + ": a job has at most " + std::to_string(journal::kMaxRanks) +
               " ranks");
}

constexpr std::uint64_t kMostSpares = 1024;
constexpr std::uint64_t kLeaseNs = 5'000'000'000;
// With written sets alone, a loss takes more than that, and a long silence may still end.
constexpr std::uint64_t kLeaseOfWrittenNs = 60'000'000'000;

std::optional<Error> finish_nodes(const Raw& raw, RunOptions& o) {
  const auto between = parse_choice("--between-nodes", raw.between_nodes,
                                    {"memory", "messages", "sockets", "fabric"});
  if (!between.ok()) return between.error();
  o.fabric = between.value() == 3;
  o.between_nodes = o.fabric ? BetweenNodes::kSockets : static_cast<BetweenNodes>(between.value());
  if (o.fabric && o.encrypt) {
    return usage(
        "--encrypt: what goes through libfabric is not encrypted; choose --between-nodes "
        "sockets");
  }
  if (!raw.remote_shell.empty()) o.remote_shell = raw.remote_shell;
  const auto survive = parse_choice("--survive", raw.survive, {"process", "host"});
  if (!survive.ok()) return survive.error();
  o.survive_host = survive.value() == 1;
  if (!raw.spares.empty()) {
    const auto spares = parse_number("--spares", raw.spares, "number of hosts", 0, kMostSpares);
    if (!spares.ok()) return spares.error();
    o.spares = static_cast<std::uint32_t>(spares.value());
  }
  if (!raw.lease.empty()) {
    const auto lease = parse_seconds("--lease", raw.lease, 0.1, 1e6,
                                     "not a time; give a number of seconds from 0.1 to 1e6");
    if (!lease.ok()) return lease.error();
    o.lease_ns = lease.value();
  } else if (o.survive_host) {
    o.lease_ns = kLeaseNs;
  } else if (!o.checkpoint_directory.empty()) {
    o.lease_ns = kLeaseOfWrittenNs;
  }
  const bool survives_losses = o.survive_host || !o.checkpoint_directory.empty();
  const bool has_place = o.spares > 0 || o.beside;
  if (!survives_losses && !raw.lease.empty()) {
    return usage(
        "--lease is for jobs that survive the loss of a host; add --survive host, or "
        "--checkpoint-dir DIR to begin again from written sets");
  }
  if (!survives_losses && has_place) {
    return usage(std::string(o.beside ? "--oversubscribe-on-loss" : "--spares") +
                 " is for jobs that go on after the loss of a host; add --survive host, or "
                 "--checkpoint-dir DIR to begin again from written sets");
  }
  if (const auto error = finish_joining(raw, o)) return error;
  return read_layout(raw.layout, o.layout);
}

Result<Command> finish(Raw& raw) {
  RunOptions& o = raw.options;
  const auto binding = parse_choice(
      "--bind-to", raw.binding.substr(0, raw.binding.find(':')),  // mpirun's :overload-allowed
      {"auto", "none", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket"});
  if (!binding.ok()) return binding.error();
  o.binding = static_cast<Binding>(binding.value());
  const bool by_processors = o.binding <= Binding::kCore;
  for (const ProgramOptions& program : o.programs) {
    if (!program.processors_each || by_processors) continue;
    return usage("--bind-to " + raw.binding +
                 " and --cpus-per-rank both set the processors of ranks; give only one of them");
  }
  if (const auto error = finish_output(raw, o)) return *error;
  if (const auto error = finish_recovery(raw, o)) return *error;
  if (!raw.timeout.empty()) {
    const auto timeout =
        parse_seconds("--timeout", raw.timeout, 1e-9, 1e9,
                      "not a time; give a number of seconds, more than 0 and at most 1e9");
    if (!timeout.ok()) return timeout.error();
    o.timeout_ns = timeout.value();
  }
  if (const auto error = finish_nodes(raw, o)) return *error;
  if (!raw.heartbeat.empty()) {
    const auto interval = parse_seconds("--heartbeat", raw.heartbeat, 1e-3, 1e9, kSomeTime);
    if (!interval.ok()) return interval.error();
    o.heartbeat_ns = interval.value();
    if (o.events_path.empty()) return usage("--heartbeat needs --events FILE");
  }
  if (const auto error = finish_checkpoints(raw, o)) return *error;
  if (const auto error = parse_snapshots(raw.snapshots, o.snapshots)) return *error;
  if (!o.restart) o.snapshots.when = SnapshotOptions::When::kOff;
  const std::tuple<const char*, const std::string&, std::uint64_t&> sizes[] = {
      {"--bootstrap-limit", raw.bootstrap_limit, o.bootstrap_limit_bytes},
      {"--snapshot-every", raw.snapshot_every, o.snapshots.every_bytes},
      {"--memory-for-images", raw.memory_for_images, o.snapshots.memory_bytes},
      {"--journal-limit", raw.journal_limit, o.journal_limit_bytes}};
  for (const auto& [option, text, bytes] : sizes) {
    if (const auto error = read_size(option, text, bytes)) return *error;
  }
  if (raw.kills.size() > journal::kMaxFaults) {
    return usage("--kill is given more than " + std::to_string(journal::kMaxFaults) + " times");
  }
  for (const std::string& text : raw.kills) {
    const auto kill = parse_kill(text);
    if (!kill.ok()) return kill.error();
    o.kills.push_back(kill.value());
  }
  return Command(std::move(o));
}

// Converts an error of CLI11 to one line.
Error from_cli(const CLI::Error& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return usage(text + "; ftrun -h lists the options");
}

// CLI11 takes the words in reverse order.
void parse_options(CLI::App& app, Words options) {
  std::reverse(options.begin(), options.end());
  app.parse(options);
}

// Parses a program after a ":". `job`: the options of the first program.
Result<ProgramOptions> parse_program(const CLI::App& job, const Words& words, HostOptions hosts,
                                     std::vector<std::string>& notices) {
  CLI::App app;
  RawProgram raw;
  describe_program(app, raw);
  auto parts = split(app, words);
  if (!parts.ok()) {
    const bool of_job = !words.empty() && split(job, words).ok();
    return !of_job ? parts.error()
                   : usage(
                         "after :, only options of one program are allowed (such as -n, -x and "
                         "--wdir); options of the whole job belong in front of the first program");
  }
  for (std::string& notice : parts.value().notices) notices.push_back(std::move(notice));
  try {
    parse_options(app, std::move(parts.value().options));
  } catch (const CLI::ParseError& error) {
    return from_cli(error);
  }
  if (parts.value().command.empty()) return usage("there is no program after :");
  return finish_program(raw, std::move(parts.value().command), hosts, notices);
}

// If there are several programs, each must have its number of ranks.
std::optional<Error> check_ranks(const std::vector<ProgramOptions>& programs) {
  std::uint64_t ranks = 0;
  for (const ProgramOptions& program : programs) {
    if (programs.size() > 1 && !program.ranks) {
      return usage("give the number of ranks of " + program.command[0] +
                   " with -n: a job of several programs has no default");
    }
    ranks += program.ranks.value_or(1);
  }
  if (ranks <= journal::kMaxRanks) return {};
  return usage(std::to_string(ranks) + " ranks: a job has 1 to " +
               std::to_string(journal::kMaxRanks));
}

Result<Command> parse_run(int argc, const char* const* argv, HostOptions hosts) {
  CLI::App app;
  Raw raw;
  bool version = false;
  describe_program(app, raw.first);
  describe_job(app, raw);
  app.add_flag("-V,--version", version, "print the version")->group("Other");
  app.set_help_flag("-h,--help", "print this help")->group("Other");
  app.formatter(std::make_shared<HelpText>());
  app.get_formatter()->column_width(34);

  const std::vector<Words> programs = split_programs(argc, argv);
  auto words = split(app, programs[0]);
  if (!words.ok()) return words.error();
  try {
    parse_options(app, std::move(words.value().options));
  } catch (const CLI::CallForHelp&) {
    return Command(Answer{help_of(app)});
  } catch (const CLI::ParseError& error) {
    return from_cli(error);
  }
  if (version) return Command(Answer{"ftrun (Rejoin) " + version_text() + "\n"});
  if (words.value().command.empty()) {
    return usage("there is no program to run; write ftrun -n 4 PROGRAM ARGUMENTS");
  }
  if (raw.options.agents_join() && hosts == HostOptions::kRead) hosts = HostOptions::kJoin;
  auto first =
      finish_program(raw.first, std::move(words.value().command), hosts, words.value().notices);
  if (!first.ok()) return first.error();
  raw.options.programs.push_back(std::move(first.value()));
  raw.options.notices = std::move(words.value().notices);
  for (std::size_t i = 1; i < programs.size(); ++i) {
    auto program = parse_program(app, programs[i], hosts, raw.options.notices);
    if (!program.ok()) return program.error();
    raw.options.programs.push_back(std::move(program.value()));
  }
  if (hosts != HostOptions::kKnown) {
    if (const auto error = check_ranks(raw.options.programs)) return *error;
  }
  return finish(raw);
}

Result<Command> parse_inspect(int argc, const char* const* argv) {
  CLI::App app(
      "ftrun inspect - print the journals of a job that was run with --keep, or sets of written "
      "images");
  InspectOptions options;
  app.name("ftrun inspect");
  app.set_help_flag("-h,--help", "print this help");
  app.add_option(
         "FILE", options.files,
         "rejoin-JOB.journal, or the directory of --checkpoint-dir; several are printed one "
         "after the other")
      ->required();
  std::string rank, limit;
  const CLI::Option* has_rank =
      app.add_option("--rank", rank, "print only this rank")->type_name("R");
  const CLI::Option* has_limit =
      app.add_option("--limit", limit, "print at most N records of each communicator")
          ->type_name("N");
  app.add_flag("--json", options.json, "print lines of JSON (docs/journal.md)");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    return Command(Answer{app.help()});
  } catch (const CLI::ParseError& error) {
    const std::string text = from_cli(error).text;
    return usage("inspect: " + text.substr(0, text.rfind(';')) + "; write ftrun inspect FILE");
  }
  if (has_rank->count() > 0) {
    const auto number = parse_number("--rank", rank, "rank", 0, journal::kMaxRanks - 1);
    if (!number.ok()) return number.error();
    options.rank = static_cast<std::uint32_t>(number.value());
  }
  if (has_limit->count() > 0) {
    const auto number = parse_number("--limit", limit, "number of records", 0, UINT64_MAX);
    if (!number.ok()) return number.error();
    options.limit = number.value();
  }
  return Command(std::move(options));
}

Result<Command> parse_check(int argc, const char* const* argv) {
  CLI::App app(
      "ftrun check - reports problems of a program before it runs: MPI functions that are not "
      "supported,\nthreads, and programs into which libmpi.so.40 cannot be preloaded. Exit code 1 "
      "if something would fail.");
  CheckOptions options;
  app.name("ftrun check");
  app.set_help_flag("-h,--help", "print this help");
  app.add_option("PROGRAM", options.program,
                 "a path, or a name in PATH; arguments after it are ignored")
      ->required();
  try {
    app.parse(std::min(argc, 3) - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    return Command(Answer{app.help()});
  } catch (const CLI::ParseError& error) {
    return usage(std::string("check: ") + error.what() + "; write ftrun check PROGRAM");
  }
  return Command(std::move(options));
}

// Returns the number of ranks that the batch system was asked for, or `processors` without one.
Result<std::uint32_t> default_ranks(std::uint32_t processors) {
  const char* tasks = getenv("SLURM_NTASKS");
  if (tasks == nullptr) return processors;
  char* end = nullptr;
  const unsigned long asked = strtoul(tasks, &end, 10);
  if (*tasks != '\0' && *end == '\0' && asked >= 1 && asked <= journal::kMaxRanks) {
    return static_cast<std::uint32_t>(asked);
  }
  return usage(std::string("SLURM_NTASKS=") + tasks + " is not a number of ranks from 1 to " +
               std::to_string(journal::kMaxRanks) + "; give the number with -n");
}

}  // namespace

std::string version_text() {
  const std::string revision = REJOIN_REVISION;
  return REJOIN_VERSION + (revision.empty() ? "" : ", revision " + revision);
}

std::optional<Error> complete(RunOptions& options, std::uint32_t processors) {
  std::uint32_t laid_out = 0;
  for (const std::uint32_t ranks : options.layout) laid_out += ranks;
  for (ProgramOptions& program : options.programs) {
    if (program.ranks) continue;
    if (laid_out > 0) {
      program.ranks = laid_out;
      continue;
    }
    const auto ranks = default_ranks(processors);
    if (!ranks.ok()) return ranks.error();
    program.ranks = ranks.value();
  }
  if (laid_out > 0 && laid_out != options.ranks()) {
    return usage("--layout gives the nodes " + std::to_string(laid_out) +
                 " ranks together, and the job has " + std::to_string(options.ranks()));
  }
  if (const auto error = fill_hosts(options)) return error;
  if (options.layout.size() == 1 && options.hosts.empty()) options.layout.clear();
  if (options.fabric && options.layout.empty()) {  // there is nothing to reach
    options.fabric = false;
    options.between_nodes = BetweenNodes::kMemory;
  }
  if (options.between_nodes != BetweenNodes::kMemory && options.layout.empty()) {
    return usage("--between-nodes needs several nodes, for example --layout 2,2");
  }
  if (const auto error = check_survival(options)) return error;
  if (options.journal_limit_bytes == 0) {
    // Agents of several nodes may share this machine.
    const bool shared = options.has_agents() && options.hosts.empty();
    options.journal_limit_bytes = default_journal_limit_bytes(options.journal_directory) /
                                  (shared ? options.layout.size() : 1);
  }
  std::uint64_t& every_bytes = options.snapshots.every_bytes;
  if (every_bytes == 0) {
    // The limit may be of another host, or of a disk.
    every_bytes = SnapshotPolicy::default_every_bytes(options.journal_limit_bytes,
                                                      default_journal_limit_bytes(""));
  }
  return {};
}

Result<Command> parse_command_line(int argc, const char* const* argv, HostOptions hosts) {
  if (argc > 1 && std::string_view(argv[1]) == "inspect") return parse_inspect(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "check") return parse_check(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "agent") return parse_agent(argc, argv);
  return parse_run(argc, argv, hosts);
}

}  // namespace rejoin::launcher
