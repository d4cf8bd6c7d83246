// The open files of an image. The image shares their offsets with the process that it was cloned
// from. That process moves the offsets and writes more before it dies, so they must be restored.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "journal/arena.h"
#include "process_image/own_channels.h"

namespace rejoin::process_image {

class OpenFiles {
 public:
  explicit OpenFiles(journal::Arena& arena) : arena_(arena), channels_(arena) {}

  // Notes what is open now, except for `own`, a descriptor of the shim. False: a clone could not go
  // on with that; `why` says with what, as in obstacles.h.
  bool note(int own, char* why, std::size_t size);
  // Called after note() has failed: whether the obstacle is temporary. A lock is; other open files
  // mostly stay open.
  bool may_pass() const { return found_lock_; }

  // Bytes of the rank's standard input that it has not read.
  int unread_input() const;

  // Called in a clone that writes itself to a file: notes the names by which a new process will
  // open what is open here, except for `own`. False: it could not; `why` as in note().
  bool note_names(const int* own, std::size_t owns, char* why, std::size_t size);
  // Called in that new process, which has this one's memory: opens the files. False: `why` becomes
  // a sentence.
  bool reopen(char* why, std::size_t size) const;

  // Called in a process that clones itself to be the image, and shares this one's memory: gives up
  // what the image must not have. Makes system calls only.
  void release_channels() const { channels_.release(); }
  // Called in the image: gives up the rank's pipes, so that their other ends see the process's end.
  void release_pipes() const;
  // Called in a woken clone: its own pipes replace the rank's, and files are read and written where
  // they were. If one of them is not what it was, `why` becomes a sentence; else it stays empty.
  void restore(const int pipes[3], char* why, std::size_t size) const;
  // Called after that, when libc is recorded again: prepares the files so that what the dead
  // process has written behind them is written again.
  void write_on() const;

 private:
  struct File {
    int fd;
    int pipe;  // 0, 1, 2: the rank's standard input, output, error, or a duplicate; else -1
    int flags;
    off_t offset;
    std::uint64_t size_bytes;
    dev_t device;
    ino_t number;
    std::int64_t modified_ns;
    std::uint64_t hash;  // hash of the contents, if the program may read what it has written
  };

  // What a new process opens by a name.
  struct Name {
    int fd;
    int flags;                  // for open()
    bool inherited;             // stays open over exec
    int same_as;                // descriptor of the same open file; -1: none
    std::uint64_t least_bytes;  // the least size of a file that is only read
    char* path;
  };

  bool name_one(int fd, char* why, std::size_t size);
  bool is_piped(int fd) const;
  bool find_same(Name& n, char* why, std::size_t size) const;
  bool open_again(const Name& name, char* why, std::size_t size) const;

  static bool is_locked(int fd, char* why, std::size_t size);
  bool note_one(int fd, char* why, std::size_t size);
  bool note_regular(File& f, char* why, std::size_t size);
  const File* known(const File& f) const;
  void add(const File& f);

  journal::Arena& arena_;
  File* files_ = nullptr;
  std::size_t count_ = 0;
  std::size_t room_ = 0;
  File* before_ = nullptr;  // what the note() before the newest has found
  std::size_t before_count_ = 0;
  std::size_t before_room_ = 0;
  bool found_lock_ = false;
  OwnChannels channels_;
  static constexpr std::size_t kMostNames = 4096;
  Name* names_ = nullptr;
  std::size_t name_count_ = 0;
};

}  // namespace rejoin::process_image
