#include "process_image/written_clone.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "libc_recording/file_log.h"
#include "libc_recording/observations.h"
#include "process_image/agent_messages.h"
#include "process_image/image_writing.h"
#include "process_image/lifeline.h"

namespace rejoin::process_image {
namespace {

// Lowers the scheduling priority of this process: no other process waits for it.
void step_back() {
  constexpr int kLowest = 19;
  constexpr int kProcess = 1, kIdle = 3 << 13;  // of ioprio_set()
  setpriority(PRIO_PROCESS, 0, kLowest);
  syscall(SYS_ioprio_set, kProcess, 0, kIdle);
}

[[noreturn]] void cannot_be_written(int agent, std::uint32_t rank, std::uint32_t set, int error,
                                    const char* why) {
  tell_agent(agent, wire::MessageType::kNotWritten, rank, set, error, 0, why);
  syscall(SYS_exit_group, 1);
  __builtin_unreachable();
}

}  // namespace

const Restored& WrittenClone::write(int agent, int file, std::uint32_t set, char* why,
                                    std::size_t size) {
  uncloned_.begin_clone();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "rejoin-writer");
  hold_lifeline();
  step_back();
  const std::uint32_t rank = rank_.rank();
  const int own[] = {agent, file};
  if (!files_.note_names(own, 2, why, size)) cannot_be_written(agent, rank, set, 0, why);
  state_.note();
  restored_ = this;
  if (_setjmp(place_) != 0) return go_on_restored(why, size);
  ImageHead head = {};
  head.rank = rank;
  head.number = cloner_.number();
  head.entry = reinterpret_cast<std::uint64_t>(&WrittenClone::restored);
  head.stack = reinterpret_cast<std::uint64_t>(cloner_.stack_end());
  const int error = write_image(file, head);
  if (error == 0) syscall(SYS_exit_group, 0);
  if (error == EOPNOTSUPP) {
    cannot_be_written(agent, rank, set, error,
                      "cannot be started with address randomisation switched off on this system");
  }
  if (error == EPERM) {
    cannot_be_written(agent, rank, set, error, "shares memory that is not in a file");
  }
  snprintf(why, size, "could not be written: %s", strerrordesc_np(error));
  cannot_be_written(agent, rank, set, error, why);
}

// Called by the restorer, on the helper's stack.
void WrittenClone::restored(const Restored* by) {
  restored_->given_ = *by;
  _longjmp(restored_->place_, 1);
}

const Restored& WrittenClone::go_on_restored(char* why, std::size_t size) {
  munmap(reinterpret_cast<void*>(kRestorerAddress), kRestorerBytes);
  uncloned_.register_thread_id();
  recovery::move_to_agent(given_.socket, given_.secret);
  libc_recording::move_file_log(given_.file_log);
  written_since_ = true;
  why[0] = '\0';
  const char* what = "";
  if (!state_.give_back(&what)) {
    snprintf(why, size, "%s could not be restored: %s", what, strerrordesc_np(errno));
  }
  if (why[0] == '\0') files_.reopen(why, size);
  return given_;
}

void WrittenClone::roll_back_files() {
  if (std::exchange(written_since_, false)) libc_recording::roll_back_files(cloner_.number());
}

}  // namespace rejoin::process_image
