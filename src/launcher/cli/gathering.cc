#include "launcher/cli/gathering.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "launcher/cli/host_planning.h"
#include "launcher/cli/options.h"
#include "launcher/hosts/secret.h"
#include "launcher/hosts/tls.h"

namespace rejoin::launcher {

Result<std::unique_ptr<Gathering>> Gathering::begin(Loop& loop, const RunOptions& options,
                                                    const std::string& lib_directory,
                                                    Meeting& meeting, JoinedAgents::Calls calls) {
  const auto tls = TlsLibrary::load(lib_directory);
  if (!tls.ok()) return tls.error();
  std::unique_ptr<Gathering> made(new Gathering());
  std::string file = options.secret_file;
  const char* const variable = getenv(kSecretFileVariable);
  if (file.empty() && variable != nullptr) file = variable;
  if (file.empty() && meeting.made_secret.empty()) {
    std::error_code error;
    file = std::filesystem::current_path(error) / ("rejoin-" + random_hex(8) + ".secret");
    if (const auto failure = make_secret(file, random_hex(16) + random_hex(16))) return *failure;
    meeting.made_secret = file;
  }
  if (file.empty()) file = meeting.made_secret;
  const auto secret = read_secret(file);
  if (!secret.ok()) return secret.error();
  std::vector<std::string> names = options.hosts;
  names.insert(names.end(), options.spare_hosts.begin(), options.spare_hosts.end());
  const std::string listen = meeting.listen.empty() ? options.listen : meeting.listen;
  JoinedAgents::Settings settings = {listen,           secret.value(),  version_text(),
                                     std::move(names), options.join_ns, options.quiet};
  made->agents_ =
      std::make_unique<JoinedAgents>(loop, tls.value(), std::move(settings), std::move(calls));
  if (const auto error = made->agents_->listen()) return *error;
  meeting.listen = made->agents_->listens_at();
  made->agents_->wait_for_all(file);
  return made;
}

Gathering::Meeting::~Meeting() {
  if (!made_secret.empty()) unlink(made_secret.c_str());
}

void Gathering::name_hosts(RunOptions& options) {
  const std::vector<std::string> names = agents_->names();
  std::size_t next = 0;
  for (std::string& host : options.hosts) host = names[next++];
  for (std::string& spare : options.spare_hosts) spare = names[next++];
  if (!options.survive_host && options.checkpoint_directory.empty()) agents_->close();
}

}  // namespace rejoin::launcher
