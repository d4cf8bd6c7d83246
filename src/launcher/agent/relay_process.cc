#include "launcher/agent/relay_process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
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

// Whether there are more processors than ranks. Nodes on one machine share them.
bool has_processor(const HostPlan& plan) {
  cpu_set_t usable;
  if (plan.options.hosts.empty() || sched_getaffinity(0, sizeof usable, &usable) != 0) return false;
  return static_cast<std::size_t>(CPU_COUNT(&usable)) > plan.local.size();
}

}  // namespace

RelayProcess::~RelayProcess() { stop(); }

std::optional<Error> RelayProcess::listen() {
  auto credentials = make_credentials(plan_);
  if (!credentials.ok()) return credentials.error();
  credentials_ = std::move(credentials.value());
  if (plan_.options.fabric) {
    if (auto error = load_fabric()) return error;
  }
  listener_ = Descriptor(relay::listen_at_any_port(!plan_.options.hosts.empty(), &port_));
  if (!listener_.open()) return Error{"no port to listen at: " + error_text(errno)};
  return {};
}

// Providers are looked for in a process of their own: some start threads, or keep devices open,
// which do not survive the fork of the relay.
std::optional<Error> RelayProcess::load_fabric() {
  const std::string path = plan_.lib_directory + "/librejoin_fabric.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{std::string("--between-nodes fabric needs libfabric (libfabric1): ") + dlerror()};
  }
  const auto function = reinterpret_cast<decltype(&rejoin_fabric)>(dlsym(library, "rejoin_fabric"));
  if (function == nullptr) return Error{path + " is of another build; install them together"};
  fabric_ = function();
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return Error{"no pipe: " + error_text(errno)};
  Descriptor from(pipe_ends[0]);
  Descriptor to(pipe_ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    set_environment();
    std::string why;
    if (fabric_->provider(&why).empty() && write(to.get(), why.data(), why.size()) < 0) _exit(1);
    _exit(why.empty() ? 0 : 1);
  }
  to = Descriptor();
  constexpr int kPatienceMs = 10'000;  // a device that is broken may not answer
  std::string why;
  char text[256];
  pollfd said = {from.get(), POLLIN, 0};
  int ready = 0;
  while (child > 0 && (ready = poll(&said, 1, kPatienceMs)) < 0 && errno == EINTR) continue;
  if (child > 0 && ready == 0) {
    kill(child, SIGKILL);
    why = "libfabric has not found its providers within 10 s";
  }
  for (ssize_t n; (n = read(from.get(), text, sizeof text)) > 0;) {
    why.append(text, static_cast<std::size_t>(n));
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return Error{"no process for libfabric"};
  if (status == 0) return {};
  if (why.empty()) why = "libfabric ends the process that asks it for its providers";
  return Error{"--between-nodes fabric: " + why + "; fi_info -t FI_EP_RDM shows what there is"};
}

// What the user has set for libfabric, which may be on another host.
void RelayProcess::set_environment() const {
  for (const std::string& variable : plan_.environments.front()) {
    const std::size_t equals = variable.find('=');
    if (variable.rfind("FI_", 0) != 0 || equals == std::string::npos) continue;
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
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
  if (fabric_ != nullptr) set_environment();
  relay::run({static_cast<std::byte*>(base), plan_.job, plan_.host, timeline_, nodes_,
              listener_.get(), credentials_.authenticate, encrypt_with(credentials_), fabric_,
              has_processor(plan_)});
}

void RelayProcess::stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace rejoin::launcher
