#include "launcher/agent/former_job.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/base/file.h"

namespace rejoin::launcher {
namespace {

// The boot id is part of the name, because names of pipes repeat after a reboot.
std::string boot() { return read_small_file("/proc/sys/kernel/random/boot_id"); }

// Returns a process that holds the lifeline; 0: there is none.
pid_t holder_of(const std::string& lifeline) {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return 0;
  pid_t found = 0;
  while (const dirent* entry = readdir(proc)) {
    const auto pid = static_cast<pid_t>(strtol(entry->d_name, nullptr, 10));
    if (pid <= 1 || pid == getpid() || !holds_lifeline(pid, lifeline)) continue;
    found = pid;
    break;
  }
  closedir(proc);
  return found;
}

}  // namespace

std::string note_of_job(const std::string& directory) { return directory + "/job"; }

std::optional<Error> await_former_job(const std::string& directory) {
  constexpr int kTries = 250, kPauseMs = 20;
  const std::string note = read_small_file(note_of_job(directory));
  const std::string now = boot();
  if (note.size() <= now.size() || note.compare(0, now.size(), now) != 0) return {};
  const std::string lifeline = note.substr(now.size());
  for (int i = 0; i < kTries; ++i) {
    if (holder_of(lifeline) == 0) return {};
    if (i == kTries / 5) {
      fprintf(stderr, "rejoin: waiting for processes of the former job in %s to end\n",
              directory.c_str());
    }
    poll(nullptr, 0, kPauseMs);
  }
  return Error{"--checkpoint-dir " + directory + ": process " +
               std::to_string(holder_of(lifeline)) +
               " of the former job there still runs and may write to its files; end it first"};
}

JobNote::JobNote(const std::string& directory, const Lifeline& lifeline)
    : path_(note_of_job(directory)) {
  FILE* file = fopen(path_.c_str(), "we");
  if (file == nullptr) return;
  fputs((boot() + lifeline.name()).c_str(), file);
  fclose(file);
}

JobNote::~JobNote() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace rejoin::launcher
