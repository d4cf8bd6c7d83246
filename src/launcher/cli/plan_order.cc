#include "launcher/cli/plan_order.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "launcher/agent/former_job.h"
#include "launcher/base/file.h"
#include "launcher/base/grammar.h"
#include "launcher/cli/options.h"
#include "launcher/hosts/secret.h"

namespace rejoin::launcher {

Order order_of_plan(const HostPlan& plan, const std::vector<std::string>& arguments,
                    const std::optional<HostSet>& resumed) {
  Order order;
  Order::Plan& to = *order.mutable_plan();
  to.set_version(version_text());
  for (const std::string& argument : arguments) to.add_arguments(argument);
  const std::string_view secret = kSecretFileVariable;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.substr(0, text.find('=')) != secret) to.add_environment(*variable);
  }
  std::error_code error;
  to.set_directory(std::filesystem::current_path(error));
  to.set_job(hex_text(plan.job));
  to.set_secret(plan.secret);
  const RunOptions& options = plan.options;
  for (const ProgramOptions& program : options.programs) to.add_ranks(*program.ranks);
  for (const std::uint32_t ranks : options.layout) to.add_layout(ranks);
  for (const std::string& host : options.hosts) to.add_hosts(host);
  to.set_journal_limit_bytes(options.journal_limit_bytes);
  if (!options.checkpoint_directory.empty()) {
    to.set_note(read_small_file(note_of_job(options.checkpoint_directory)));
  }
  if (resumed) {
    to.set_incarnation(resumed->incarnation);
    to.mutable_part()->set_set(resumed->number);
  }
  return order;
}

Order order_of_part(Order order, const Action::Replace& a,
                    const std::vector<std::string>& printed) {
  order.mutable_plan()->set_incarnation(a.incarnation);
  Order::Plan::Part& part = *order.mutable_plan()->mutable_part();
  part.set_set(a.set);
  part.set_takes_over(true);
  for (const std::string& bytes : printed) part.add_printed(bytes);
  return order;
}

}  // namespace rejoin::launcher
