#include "launcher/agent/guardian.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/base/loop.h"
#include "launcher/base/process.h"

namespace rejoin::launcher {

struct Guardian::Page {
  char path[PATH_MAX];
  char directory[PATH_MAX];  // of checkpoints and sets of images
  char whole[PATH_MAX];      // a directory that goes with the job
  std::atomic<std::uint64_t> kill_at_ns;
};

namespace {

// Kills every process of the job that /proc shows. Returns how many there were.
int kill_all_of(const std::string& socket, const std::string& lifeline) {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return 0;
  int found = 0;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = static_cast<pid_t>(strtol(entry->d_name, nullptr, 10));
    if (pid <= 1 || pid == getpid()) continue;
    if (!rank_by_environment(pid, socket) && !holds_lifeline(pid, lifeline)) continue;
    ++found;
    kill(pid, SIGKILL);
  }
  closedir(proc);
  return found;
}

void remove_parts(const char* directory) {
  std::error_code error;
  std::vector<std::filesystem::path> parts;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().native().ends_with(".rejoin.part")) parts.push_back(entry.path());
  }
  for (const auto& part : parts) std::filesystem::remove_all(part, error);
}

}  // namespace

Guardian::Guardian(const std::string& socket, Lifeline& lifeline) {
  void* p = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  if (p == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0) return;
  page_ = static_cast<Page*>(p);
  pipe_ = Descriptor(ends[1]);
  const pid_t guarded = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    lifeline.release();
    guard(ends[0], *page_, guarded, socket, lifeline.name());
  }
  close(ends[0]);
}

Guardian::~Guardian() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (page_ != nullptr) munmap(page_, sizeof *page_);
}

void Guardian::unlink_on_death(const std::string& path) const {
  if (page_ == nullptr) return;
  page_->path[path.copy(page_->path, sizeof page_->path - 1)] = '\0';
}

void Guardian::remove_on_death(const std::string& directory) const {
  if (page_ == nullptr) return;
  page_->whole[directory.copy(page_->whole, sizeof page_->whole - 1)] = '\0';
}

void Guardian::remove_parts_on_death(const std::string& directory) const {
  if (page_ == nullptr) return;
  page_->directory[directory.copy(page_->directory, sizeof page_->directory - 1)] = '\0';
}

// While there is no time, the guardian sleeps until it is told that there is one. A later time
// needs no word: it is found when the former one has come.
void Guardian::kill_at(std::uint64_t monotonic_ns) {
  if (page_ == nullptr || pid_ <= 0) return;
  const std::uint64_t former_ns = page_->kill_at_ns.exchange(monotonic_ns);
  const bool is_sooner = monotonic_ns != 0 && (former_ns == 0 || monotonic_ns < former_ns);
  [[maybe_unused]] const ssize_t sent = is_sooner ? write(pipe_.get(), "", 1) : 0;
}

// Waits for the end of the guarded process, and brings it about if its time has come: at once for
// its ranks, because a process that waits for a disk does not end before that answers.
void Guardian::await_end(int pipe, const Page& page, pid_t guarded, const std::string& socket,
                         const std::string& lifeline) {
  constexpr std::uint64_t kMsNs = 1'000'000, kMostMs = 60'000;
  for (;;) {
    const std::uint64_t kill_at_ns = page.kill_at_ns, now_ns = monotonic_ns();
    const bool is_late = kill_at_ns != 0 && now_ns >= kill_at_ns;
    if (is_late && getppid() == guarded) kill(guarded, SIGKILL);
    if (is_late) kill_all_of(socket, lifeline);
    int limit_ms = is_late ? 100 : -1;
    if (kill_at_ns != 0 && !is_late) {
      limit_ms = static_cast<int>(std::min((kill_at_ns - now_ns) / kMsNs + 1, kMostMs));
    }
    pollfd news = {pipe, POLLIN, 0};
    char byte;
    if (poll(&news, 1, limit_ms) == 1 && read(pipe, &byte, 1) == 0) return;
  }
}

void Guardian::guard(int pipe, const Page& page, pid_t guarded, const std::string& socket,
                     const std::string& lifeline) {
  // Leaves the terminal's session and closes 0 to 2, so that readers of ftrun's output see its end.
  setsid();
  prctl(PR_SET_NAME, "ftrun-guardian");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int fd = 0; fd < 3; ++fd) close(fd);
  await_end(pipe, page, guarded, socket, lifeline);
  // Removed first, before another job can create files with the same names.
  if (page.path[0] != '\0') unlink(page.path);
  if (page.directory[0] != '\0') remove_parts(page.directory);
  // A process may be born while the list is read, so read it again.
  constexpr int kRounds = 50;
  const timespec pause = {0, 2 * 1000 * 1000};
  for (int round = 0; round < kRounds && kill_all_of(socket, lifeline) > 0; ++round) {
    nanosleep(&pause, nullptr);
  }
  std::error_code error;
  if (page.whole[0] != '\0') std::filesystem::remove_all(page.whole, error);
  _exit(0);
}

}  // namespace rejoin::launcher
