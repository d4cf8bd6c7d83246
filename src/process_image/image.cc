#include "process_image/image.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "libc_recording/file_log.h"
#include "libc_recording/observations.h"
#include "process_image/agent_messages.h"
#include "process_image/lifeline.h"
#include "wire/socket.h"

namespace rejoin::process_image {
namespace {

using wire::Message;
using wire::MessageType;

bool has_addresses(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED && munmap(at, bytes) == 0;
}

}  // namespace

void FrozenImage::prepare() {
  segment_bytes_ = journal::job_of(rank_.host())->segment_bytes;
  incarnation_ = rank_.incarnation();
}

void FrozenImage::be() {
  sleep_until_woken();
  libc_recording::wake_observations();
  // Before the rank is live: if it dies from there on, it is started again without this.
  if (std::exchange(files_go_back_, false)) libc_recording::roll_back_files(cloner_.number());
  woken_();
  files_.write_on();
  written_.roll_back_files();
}

// Sleeps until the agent wakes it. Returns in a clone that is the rank.
void FrozenImage::sleep_until_woken() {
  // If the rank is killed while its helper shares its memory, the kernel clears the thread id
  // there. Without it every lock of the C library that stores its owner seems to be held by this
  // thread.
  state_.restore_thread_id();
  close(rank_.host().agent_socket());
  state_.begin_clone();
  state_.be_killed_first();
  files_.release_pipes();
  hold_lifeline();
  agent_ = recovery::connect_as(MessageType::kImage, cloner_.number(), incarnation_);
  cloner_.leave_helper();
  // The image is usable from here on: the agent reads its messages before it sees a death.
  prctl(PR_SET_NAME, "rejoin-image");
  for (;;) {
    Message m;
    wire::Descriptors given;
    if (agent_ < 0 || wire::receive_message(agent_, m, &given) != wire::Received::kMessage) {
      syscall(SYS_exit_group, 0);
    }
    const bool writes = m.type == MessageType::kWrite;
    if (!writes && m.type != MessageType::kWake) continue;
    files_go_back_ = !writes && m.code != 0;
    const long clone = state_.clone_here(CLONE_PARENT);
    if (clone == 0 && writes) return be_written(given.fd[0], m.incarnation);
    if (clone == 0) return become_rank(m.incarnation, given.fd, "");
    tell_agent(agent_, writes ? MessageType::kWriting : MessageType::kForked, rank_.rank(),
               m.incarnation, clone < 0 ? static_cast<int>(-clone) : 0,
               clone < 0 ? 0 : static_cast<std::uint64_t>(clone));
    for (std::size_t i = 0; i < given.count; ++i) close(given.fd[i]);
  }
}

// Called in a clone of the image. Returns in a process that was restored from `file`.
void FrozenImage::be_written(int file, std::uint32_t set) {
  char why[400];
  // A restored process does not have the image's connection.
  const Restored& given = written_.write(std::exchange(agent_, -1), file, set, why, sizeof why);
  become_rank(given.incarnation, given.pipes, why);
}

// Makes this process the rank. Touches nothing that other processes see before the agent has
// admitted it. `reason`: why it cannot go on; the agent then refuses it.
void FrozenImage::become_rank(std::uint32_t incarnation, const int* pipes, const char* reason) {
  close(agent_);
  state_.begin_clone();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  state_.restore_name_and_priorities();
  hold_lifeline();
  char why[400];
  snprintf(why, sizeof why, "%s", reason);
  // Mapping the journal again would fail under a limit that the program set after the first
  // mapping.
  rlimit addresses = {};
  getrlimit(RLIMIT_AS, &addresses);
  const rlimit widest = {addresses.rlim_max, addresses.rlim_max};
  setrlimit(RLIMIT_AS, &widest);
  if (why[0] == '\0' && !has_addresses(segment_bytes_)) {
    snprintf(why, sizeof why,
             "has a limit of %llu MiB of address space (RLIMIT_AS, ulimit -v), under which the "
             "journal cannot be mapped",
             static_cast<unsigned long long>(addresses.rlim_max >> 20));
  }
  if (why[0] == '\0') files_.restore(pipes, why, sizeof why);
  if (why[0] == '\0') threads_.create(why, sizeof why);
  const int socket = recovery::connect_as(MessageType::kWoken, cloner_.number(), incarnation, why);
  if (socket < 0 || !recovery::attach_again(socket)) syscall(SYS_exit_group, 1);
  setrlimit(RLIMIT_AS, &addresses);
  state_.restore_timers();
  recovery::renote_standard_pipes(pipes);
  for (int i = 0; i < 3; ++i) close(pipes[i]);
}

}  // namespace rejoin::process_image
