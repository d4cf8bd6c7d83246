#include "launcher/agent/relay_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/base/loop.h"
#include "launcher/hosts/tunnel.h"
#include "relay/relay.h"
#include "wire/open_descriptors.h"

namespace rejoin::launcher {
namespace {

// Closes all descriptors from 3 on but this one: the relay holds nothing of the agent's open.
void close_all_but(int kept) {
  wire::each_descriptor([kept](int fd) {
    if (fd > 2 && fd != kept) close(fd);
    return true;
  });
}

relay::Encrypt encrypt_with(const Credentials& credentials) {
  if (!credentials.tls) return nullptr;
  return [tls = *credentials.tls](int fd, bool accepted, const relay::Digest& key) {
    return open_tunnel(Descriptor(fd), tls, accepted ? TlsSide::kAccepts : TlsSide::kConnects,
                       std::string(key.begin(), key.end()))
        .release();
  };
}

}  // namespace

RelayProcess::~RelayProcess() { stop(); }

std::optional<Error> RelayProcess::listen() {
  auto credentials = make_credentials(plan_);
  if (!credentials.ok()) return credentials.error();
  credentials_ = std::move(credentials.value());
  listener_ = Descriptor(relay::listen_at_any_port(!plan_.options.hosts.empty(), &port_));
  if (!listener_.open()) return Error{"no port to listen at: " + error_text(errno)};
  return {};
}

pid_t RelayProcess::pause(std::uint32_t timeline) {
  const pid_t former = pid_;
  stop();
  is_paused_ = true;
  timeline_ = timeline;
  return former;
}

pid_t RelayProcess::start_again() {
  is_paused_ = false;
  constexpr std::uint64_t kPeriodNs = 2'000'000'000;
  constexpr unsigned kMost = 200;  // starts in a period
  if (monotonic_ns() - first_start_ns_ > kPeriodNs) {
    first_start_ns_ = monotonic_ns();
    starts_ = 0;
  }
  if (++starts_ > kMost) return pid_ = -1;
  const pid_t agent = getpid();
  pid_ = fork();
  if (pid_ != 0) return pid_;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) _exit(1);
  prctl(PR_SET_NAME, "ftrun-relay");
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  // Links contain addresses. Where the agent has mapped the segment does not matter.
  void* const home = reinterpret_cast<void*>(journal::kSegmentAddress);
  const std::uint64_t bytes = journal::header_of(segment_.base())->segment_bytes;
  munmap(segment_.base(), bytes);  // a limit on addresses may not allow both
  void* const base =
      mmap(home, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
           segment_.descriptor(), 0);
  if (base != home) _exit(relay::kExitSystem);
  // Ranks, which are the agent's descendants, may have this process's sockets, also where the
  // system (Yama) allows it to parents only.
  prctl(PR_SET_PTRACER, agent);
  close_all_but(listener_.get());
  relay::run({static_cast<std::byte*>(base), plan_.job, plan_.host, timeline_, nodes_,
              listener_.get(), credentials_.authenticate, encrypt_with(credentials_)});
}

void RelayProcess::stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace rejoin::launcher
