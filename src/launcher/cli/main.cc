// ftrun: runs an MPI program that outlives its ranks.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "launcher/cli/agent_command.h"
#include "launcher/cli/driver.h"
#include "launcher/cli/options.h"
#include "launcher/cli/preflight.h"
#include "launcher/inspect/inspect.h"

int main(int argc, char** argv) {
  using namespace rejoin::launcher;
  if (argc == 2 && std::string_view(argv[1]) == "agent") return run_agent();
  auto command = parse_command_line(argc, argv);
  if (!command.ok()) {
    std::fprintf(stderr, "rejoin: %s\n", command.error().text.c_str());
    return command.error().exit_code;
  }
  if (const auto* answer = std::get_if<Answer>(&command.value())) {
    std::fputs(answer->text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? 0 : kExitFailure;
  }
  if (const auto* inspect = std::get_if<InspectOptions>(&command.value())) {
    return run_inspect(*inspect);
  }
  if (const auto* check = std::get_if<CheckOptions>(&command.value())) return run_check(*check);
  if (const auto* agent = std::get_if<AgentOptions>(&command.value())) {
    return run_joined_agent(*agent);
  }
  return run_job(std::get<RunOptions>(std::move(command.value())), {argv, argv + argc});
}
