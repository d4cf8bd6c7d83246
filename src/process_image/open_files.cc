#include "process_image/open_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "libc_recording/hooks.h"
#include "recovery/attach.h"
#include "recovery/hash.h"

namespace rejoin::process_image {
namespace {

// Of files that the program reads and writes: they are read at every snapshot that finds them
// changed.
constexpr std::uint64_t kMostHashedBytes = 256 << 20;

std::int64_t modified_ns(const struct stat& s) {
  return s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec;
}

// Its path, for texts.
void name_of(int fd, char* name, std::size_t size) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, name, size - 1);
  name[n > 0 ? n : 0] = '\0';
}

bool hash_contents(int fd, std::uint64_t bytes, std::uint64_t* hash) {
  char piece[16384];
  std::uint64_t h = bytes;
  for (std::uint64_t at = 0; at < bytes;) {
    const ssize_t n =
        pread(fd, piece, std::min<std::uint64_t>(sizeof piece, bytes - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    h = journal::mix(h ^ XXH3_64bits(piece, static_cast<std::size_t>(n)));
    at += static_cast<std::uint64_t>(n);
  }
  *hash = h;
  return true;
}

// Without contents of its own, or with contents that do not matter: null, zero, random; terminals.
bool is_harmless_device(dev_t device) {
  constexpr unsigned kMemory = 1, kTerminal = 5, kFirstPty = 136, kLastPty = 143;
  const unsigned major_number = major(device);
  return major_number == kMemory || major_number == kTerminal ||
         (major_number >= kFirstPty && major_number <= kLastPty);
}

}  // namespace

bool OpenFiles::note(int own, char* why, std::size_t size) {
  std::swap(files_, before_);
  std::swap(room_, before_room_);
  before_count_ = std::exchange(count_, 0);
  const int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) {
    snprintf(why, size, "cannot look at its open files");
    return false;
  }
  bool good = true;
  alignas(dirent64) char entries[4096];
  for (long n; good && (n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0;) {
    for (long at = 0; good && at < n;) {
      const auto* e = reinterpret_cast<const dirent64*>(entries + at);
      at += e->d_reclen;
      if (e->d_name[0] == '.') continue;
      const int fd = atoi(e->d_name);
      if (fd != directory && fd != own) good = note_one(fd, why, size);
    }
  }
  close(directory);
  return good;
}

bool OpenFiles::note_one(int fd, char* why, std::size_t size) {
  struct stat s;
  if (fstat(fd, &s) != 0) return true;
  File f = {fd,       -1,       fcntl(fd, F_GETFL), 0, static_cast<std::uint64_t>(s.st_size),
            s.st_dev, s.st_ino, modified_ns(s),     0};
  if (S_ISREG(s.st_mode)) return note_regular(f, why, size);
  if (S_ISDIR(s.st_mode)) {
    f.offset = lseek(fd, 0, SEEK_CUR);
    add(f);
    return true;
  }
  if (const int pipe = recovery::standard_pipe(s.st_dev, s.st_ino); pipe >= 0) {
    f.pipe = pipe;
    add(f);
    return true;
  }
  if (S_ISCHR(s.st_mode) && is_harmless_device(s.st_rdev)) return true;
  // The end of ftrun kills by this one; or it was there before the program.
  if (fcntl(fd, F_GETSIG) == SIGKILL || recovery::is_inherited(fd)) return true;
  char name[256];
  name_of(fd, name, sizeof name);
  snprintf(why, size, "has %s open, whose other end a clone cannot be given again", name);
  return false;
}

bool OpenFiles::note_regular(File& f, char* why, std::size_t size) {
  f.offset = lseek(f.fd, 0, SEEK_CUR);
  if ((f.flags & O_ACCMODE) == O_RDWR) {
    // It may read again what it has written over since.
    const File* before = known(f);
    const bool good = f.size_bytes <= kMostHashedBytes &&
                      (before != nullptr ? (f.hash = before->hash, true)
                                         : hash_contents(f.fd, f.size_bytes, &f.hash));
    if (!good) {
      char name[256];
      name_of(f.fd, name, sizeof name);
      snprintf(why, size, "has %s open to read and write, which has %llu bytes", name,
               static_cast<unsigned long long>(f.size_bytes));
      return false;
    }
  }
  add(f);
  return true;
}

// The same file, unchanged since the last time: its hash need not be made again.
const OpenFiles::File* OpenFiles::known(const File& f) const {
  for (std::size_t i = 0; i < before_count_; ++i) {
    const File& b = before_[i];
    if (b.device == f.device && b.number == f.number && b.size_bytes == f.size_bytes &&
        b.modified_ns == f.modified_ns && (b.flags & O_ACCMODE) == O_RDWR) {
      return &b;
    }
  }
  return nullptr;
}

void OpenFiles::add(const File& f) {
  if (count_ == room_) {
    const std::size_t larger = 2 * room_ + 16;
    auto* moved = static_cast<File*>(arena_.allocate(larger * sizeof(File)));
    if (moved == nullptr) return;
    std::copy(files_, files_ + count_, moved);
    arena_.release(files_, room_ * sizeof(File));
    files_ = moved;
    room_ = larger;
  }
  files_[count_++] = f;
}

int OpenFiles::unread_input() const {
  for (std::size_t i = 0; i < count_; ++i) {
    int unread = 0;
    if (files_[i].pipe == 0 && ioctl(files_[i].fd, FIONREAD, &unread) == 0) return unread;
  }
  return 0;
}

void OpenFiles::release_pipes() const {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (std::size_t i = 0; i < count_; ++i) {
    if (files_[i].pipe >= 0) dup2(nowhere, files_[i].fd);
  }
  close(nowhere);
}

void OpenFiles::restore(const int pipes[3], char* why, std::size_t size) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const File& f = files_[i];
    if (f.pipe >= 0) {
      const int inherits = fcntl(f.fd, F_GETFD);
      if (dup2(pipes[f.pipe], f.fd) != f.fd) {
        snprintf(why, size, "its pipes could not be put in place");
        return;
      }
      fcntl(f.fd, F_SETFD, inherits);
      continue;
    }
    if ((f.flags & O_ACCMODE) == O_RDWR) {
      struct stat s;
      std::uint64_t hash = 0;
      const bool same = fstat(f.fd, &s) == 0 &&
                        static_cast<std::uint64_t>(s.st_size) >= f.size_bytes &&
                        hash_contents(f.fd, f.size_bytes, &hash) && hash == f.hash;
      if (!same) {
        char name[256];
        name_of(f.fd, name, sizeof name);
        snprintf(why, size, "%s was written over since the snapshot, and the program may read it",
                 name);
        return;
      }
    }
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const File& f = files_[i];
    if (f.pipe < 0 && f.offset >= 0) lseek(f.fd, f.offset, SEEK_SET);
  }
}

void OpenFiles::write_on() const {
  if (rejoin_libc_write_on == nullptr) return;
  for (std::size_t i = 0; i < count_; ++i) {
    const File& f = files_[i];
    if (f.pipe < 0 && (f.flags & O_ACCMODE) != O_RDONLY) rejoin_libc_write_on(f.fd, f.size_bytes);
  }
}

}  // namespace rejoin::process_image
