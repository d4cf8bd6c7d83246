// The rules of files (docs/libc-recording.md), shared by all the functions that take paths. All of
// it REQUIRES observing(); nothing here allocates from the program's heap.
//
// What a replay does to files follows from one rule: what lay at a path when the rank died is where
// it belongs. A replay writes into it only if it is the very file that the record names, and never
// moves or removes it. Files that are gone are made again as ghosts, which are moved and removed as
// the original files were. If another file has the name now, the file is made again without a name.
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <sys/types.h>

#include <cstdint>

#include "libc_recording/hooks.h"
#include "libc_recording/identity.h"

namespace rejoin::libc_recording {

// Whether operations on a path are recorded: not in /proc, /sys and /dev (/dev/shm is ordinary),
// and not if the path is too long to be one.
bool ordinary(const char* path);

// Returns what lies at a path now.
using Found = FoundFile;
Found look(int dirfd, const char* path, bool follow_links);

// Shows the user one line about a path, once for each path.
[[gnu::format(printf, 2, 3)]] void tell(const char* path, const char* format, ...);
// The same where the replay has become untrue: ends the job unless users want to go on.
[[gnu::format(printf, 2, 3)]] void untrue(const char* path, const char* format, ...);

enum class Answer {
  kRecorded,  // the event is filled in
  kDone,      // the former incarnation made this change and died before its record: record it
  kLive,      // ask the system, then record
};

Answer ask(Event& event);
// A change of the file system that succeeds once: unlink, rename, mkdir, an exclusive creation.
// What lies at `watched` is recorded before it, so that a death between the change and its record
// is recognised.
Answer ask_once(Event& event, int dirfd, const char* watched);

inline void record(const Event& event) { rejoin_libc_record(&event); }

// Makes a path independent of the working directory, without slashes at its end. `to`: PATH_MAX
// bytes.
bool make_absolute(int dirfd, const char* path, char* to);
// Log that something is about to be made where nothing lies, and whether it has been made
// (file_log.h). Leave errno as it is.
void log_making(int dirfd, const char* path);
void log_made(int dirfd, const char* path, bool made);

bool is_ghost(const Found& f);
// To be called before a ghost gets this path as well.
void about_to_place_ghost(const Found& f, int dirfd, const char* path);

// A ghost that is to be made:
//
//     if (ghost.begin(dirfd, path)) { make it at ghost.path(); ghost.end(); }
//
// It is made beside its path under a random name, and gets its own name after its identity has been
// noted. What the replay after this one removes has therefore been made by this one.
class NewGhost {
 public:
  // False: its place cannot be determined.
  bool begin(int dirfd, const char* path);
  const char* path() const { return aside_; }
  // If another file has taken its own name meanwhile, the ghost remains without a name. Leaves
  // errno as it is.
  void end();
  // Its intended path: absolute, without symbolic links in the last component.
  const char* final_path() const { return final_; }

 private:
  char final_[PATH_MAX] = "";
  char aside_[PATH_MAX] = "";
};

// Removes a file, or an empty directory.
void remove_at(int dirfd, const char* path);

// One opening of a file, by open() or fopen():
//
//     if (!opening.begin()) fail with errno;
//     really open opening.path(), in opening.dirfd(), with opening.flags();
//     opening.end(the descriptor, or -1);
class Opening {
 public:
  Opening(int dirfd, const char* path, int flags, mode_t mode);
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  bool begin();
  // Called instead of begin() if the answer has been found in another event.
  void begin_again(const OpenedFile& then);
  const char* path() const { return instead_[0] == '\0' ? path_ : instead_; }
  int dirfd() const { return instead_[0] == '\0' ? dirfd_ : AT_FDCWD; }
  // The program's flags, but perhaps without O_EXCL, and with or without O_TRUNC.
  int flags() const { return flags_; }
  // Leaves errno as it is.
  void end(int fd);

 private:
  bool writes() const { return (asked_ & O_ACCMODE) != O_RDONLY; }
  bool creates() const { return (asked_ & O_CREAT) != 0; }
  bool exclusive() const { return creates() && (asked_ & O_EXCL) != 0; }
  bool truncates() const { return (asked_ & O_TRUNC) != 0 || exclusive(); }
  bool reads() const { return (asked_ & O_ACCMODE) != O_WRONLY; }
  bool appends() const { return (asked_ & O_APPEND) != 0 && !truncates(); }
  void make_again_in_place() { flags_ = (asked_ & ~O_EXCL) | O_TRUNC; }

  void prepare();
  bool find_where_it_was_rewritten(Found* now);
  bool find_kept();
  void prepare_absent();
  void prepare_truncation(const Found& now);
  void prepare_growth(const Found& now);
  void set_size(int flags);
  void open_unnamed();

  const int dirfd_;
  const char* const path_;
  const int asked_;
  const mode_t mode_;
  int flags_;
  OpenedFile then_ = {};
  Event event_;
  bool replayed_ = false;
  bool makes_ = false;  // it creates a file, and the file log is in use
  enum class Becomes { kNothing, kRewritten, kGhost } becomes_ = Becomes::kNothing;
  char instead_[PATH_MAX];  // if not empty: what is opened instead of the path
  NewGhost ghost_;
  int unnamed_ = -1;  // the file without a name that instead_ refers to
};

}  // namespace rejoin::libc_recording
