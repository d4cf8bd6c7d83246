#include "launcher/agent/guardian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "launcher/base/process.h"

namespace rejoin::launcher {

struct Guardian::Page {
  char path[PATH_MAX];
  char directory[PATH_MAX];  // of checkpoints and sets of images
  char whole[PATH_MAX];      // a directory that goes with the job
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
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    lifeline.release();
    guard(ends[0], *page_, socket, lifeline.name());
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

void Guardian::guard(int pipe, const Page& page, const std::string& socket,
                     const std::string& lifeline) {
  // Leaves the terminal's session and closes 0 to 2, so that readers of ftrun's output see its end.
  setsid();
  prctl(PR_SET_NAME, "ftrun-guardian");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int fd = 0; fd < 3; ++fd) close(fd);
  char byte;
  while (read(pipe, &byte, 1) < 0 && errno == EINTR) {
  }
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
