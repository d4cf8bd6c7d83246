#include "launcher/cli/join_options.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "launcher/hosts/joined_agents.h"
#include "launcher/hosts/secret.h"

namespace rejoin::launcher {
namespace {

// Sets the time, if the option was given.
std::optional<Error> read_timeout(const std::string& text, std::uint64_t& time_ns) {
  if (text.empty()) return {};
  char* end = nullptr;
  const double seconds = strtod(text.c_str(), &end);
  if (*end != '\0' || !(seconds >= 0.1) || !(seconds <= 1e6)) {
    return Error{
        "--join-timeout " + text + ": not a time; give a number of seconds from 0.1 to 1e6",
        kExitUsage};
  }
  time_ns = static_cast<std::uint64_t>(seconds * 1e9);
  return {};
}

}  // namespace

std::optional<Error> finish_joining(const Raw& raw, RunOptions& o) {
  if (!o.agents_join()) {
    if (o.secret_file.empty() && raw.join_timeout.empty()) return {};
    return Error{std::string(o.secret_file.empty() ? "--join-timeout" : "--secret-file") +
                     " is for agents that join; add --listen",
                 kExitUsage};
  }
  if (host_and_port(o.listen).second.empty()) {
    return Error{"--listen " + o.listen +
                     ": write [ADDRESS]:PORT, for example :7000, 10.0.0.5:7000 or [fd00::5]:7000",
                 kExitUsage};
  }
  const std::pair<bool, const char*> of_shells[] = {{!raw.remote_shell.empty(), "--remote-shell"},
                                                    {!raw.layout.empty(), "--layout"},
                                                    {o.beside, "--oversubscribe-on-loss"}};
  for (const auto& [given, name] : of_shells) {
    if (!given) continue;
    return Error{
        std::string(name) +
            " is for agents that ftrun starts, and with --listen they join; leave it out" +
            (o.beside ? " (another agent may join as a spare, also on the same machine)" : ""),
        kExitUsage};
  }
  return read_timeout(raw.join_timeout, o.join_ns);
}

Result<Command> parse_agent(int argc, const char* const* argv) {
  CLI::App app(
      "ftrun agent - runs the ranks of this host, for an ftrun --listen on another one to which "
      "it\n"
      "connects (docs/cluster.md). It runs one job, and ends with it: exit code 0 if it has "
      "served\n"
      "the job to its end, or was not needed.");
  AgentOptions options;
  std::string timeout;
  app.name("ftrun agent");
  app.set_help_flag("-h,--help", "print this help");
  app.add_option("--join", options.join, "where ftrun listens")->type_name("HOST:PORT")->required();
  app.add_option("--secret-file", options.secret_file,
                 "the same as ftrun's (default: the file that REJOIN_SECRET_FILE names)")
      ->type_name("FILE");
  app.add_option("--name", options.name,
                 "name of this host, as in ftrun's list if it has one (default: hostname)")
      ->type_name("NAME");
  app.add_option("--address", options.address,
                 "where the other hosts reach this one (default: the address from which it is\n"
                 "connected with ftrun)")
      ->type_name("ADDRESS");
  app.add_option("--join-timeout", timeout, "time until ftrun has to be there (default: 300)")
      ->type_name("SECONDS");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    return Command(Answer{app.help()});
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return Error{"agent: " + text + "; write ftrun agent --join HOST:PORT", kExitUsage};
  }
  const auto [host, port] = host_and_port(options.join);
  if (host.empty() || port.empty() || port == "0") {
    return Error{"--join " + options.join + ": write HOST:PORT, for example head:7000", kExitUsage};
  }
  if (const auto error = read_timeout(timeout, options.join_ns)) return *error;
  const char* const variable = getenv(kSecretFileVariable);
  if (options.secret_file.empty() && variable != nullptr) options.secret_file = variable;
  if (options.secret_file.empty()) {
    return Error{"agent: give the file with the secret that ftrun uses, with --secret-file or " +
                     std::string(kSecretFileVariable),
                 kExitUsage};
  }
  if (options.name.empty()) {
    char own[HOST_NAME_MAX + 1] = "";
    gethostname(own, sizeof own - 1);
    options.name = own;
  }
  return Command(std::move(options));
}

}  // namespace rejoin::launcher
