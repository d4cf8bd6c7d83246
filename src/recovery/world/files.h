// The rules of files (docs/world.md), shared by all the functions that take paths. All of it
// REQUIRES observing(); nothing here allocates from the program's heap.
//
// What a replay does to files follows from one sentence: what lay at a path when the rank died is where
// it belongs. A replay writes into it only if it is the very file that the record names, and never
// moves or removes it. Files that are gone are made again, as ghosts, and ghosts are moved and removed
// as the first ones were. A file under whose name another one lies now is made in unnamed memory.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>

#include "recovery/world/hooks.h"

namespace rejoin::world {

using recovery::Event;
using recovery::ObservationKind;
using recovery::OpenedFile;

// Whether the fate of a path is recorded: not in /proc, /sys and /dev (/dev/shm is ordinary), and
// not if it is too long to be one.
bool ordinary(const char* path);

// What lies at a path now.
struct Found {
  bool there = false;
  bool regular = false;
  OpenedFile file = {};
};
Found look(int dirfd, const char* path, bool follow_links);

// One line for the user about a path, once a path.
[[gnu::format(printf, 2, 3)]] void tell(const char* path, const char* format, ...);

enum class Answer {
  kRecorded,  // the event is filled in
  kDone,      // the former life made this change and died before its record: record it
  kLive,      // ask the world, then record
};

inline Answer ask(Event& event) {
  return rejoin_world_recall(&event) ? Answer::kRecorded : Answer::kLive;
}
// A change of the file system that succeeds once: unlink, rename, mkdir, an exclusive creation.
// What lies at `watched` is recorded before it, so that a death between the change and its record
// is seen for what it is.
Answer ask_once(Event& event, int dirfd, const char* watched);

inline void record(const Event& event) { rejoin_world_record(&event); }

// A file that a replay has made in place of one that is gone.
inline bool is_ghost(const Found& f) { return f.there && rejoin_world_ghost(f.file.file) != 0; }
inline void set_ghost(const Found& f) {
  if (f.there) rejoin_world_set_ghost(f.file.file);
}

// One opening of a file, by open() or fopen():
//
//     if (!opening.begin()) fail with errno;
//     really open opening.path() with opening.flags();
//     opening.end(the descriptor, or -1);
class Opening {
 public:
  Opening(int dirfd, const char* path, int flags, mode_t mode);
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  bool begin();
  // Instead of begin(), where the answer has been found in another event.
  void begin_again(const OpenedFile& then);
  const char* path() const { return elsewhere_ < 0 ? path_ : elsewhere_path_; }
  // What the program asked for, but perhaps without O_EXCL, and with or without O_TRUNC.
  int flags() const { return flags_; }
  // Leaves errno as it is.
  void end(int fd);

 private:
  bool writes() const { return (asked_ & O_ACCMODE) != O_RDONLY; }
  bool creates() const { return (asked_ & O_CREAT) != 0; }
  bool exclusive() const { return creates() && (asked_ & O_EXCL) != 0; }
  bool truncates() const { return (asked_ & O_TRUNC) != 0 || exclusive(); }
  bool appends() const { return (asked_ & O_APPEND) != 0 && !truncates(); }
  void make_again_in_place() { flags_ = (asked_ & ~O_EXCL) | O_TRUNC; }

  void prepare();
  void prepare_absent();
  void prepare_truncation(const Found& now);
  void prepare_append(const Found& now);
  void set_size(int flags);
  void go_elsewhere();

  const int dirfd_;
  const char* const path_;
  const int asked_;
  const mode_t mode_;
  int flags_;
  OpenedFile then_ = {};
  Event event_;
  bool replayed_ = false;
  enum class Becomes { kNothing, kRewritten, kGhost } becomes_ = Becomes::kNothing;
  int elsewhere_ = -1;  // unnamed memory that is opened instead of the path
  char elsewhere_path_[32] = "";
};

}  // namespace rejoin::world
