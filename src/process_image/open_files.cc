#include "process_image/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "libc_recording/hooks.h"
#include "process_image/same_file.h"
#include "recovery/attach.h"
#include "recovery/hash.h"
#include "wire/open_descriptors.h"

namespace rejoin::process_image {
namespace {

// The largest file, open to read and write, that is hashed: such files are read at every snapshot
// that finds them changed.
constexpr std::uint64_t kMostHashedBytes = 256 << 20;

std::int64_t modified_ns(const struct stat& s) {
  return s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec;
}

// Gives the path of an open file, for texts.
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

constexpr unsigned kMemory = 1;  // null, zero, random
bool is_memory(dev_t device) { return major(device) == kMemory; }

// Returns false; `why` says that the other end of a standard stream does not belong to ftrun. It
// may belong to a script that has started the program and reads its output.
bool refuse_standard(int fd, char* why, std::size_t size) {
  constexpr const char* kNames[] = {"standard input", "standard output", "standard error"};
  char name[256];
  name_of(fd, name, sizeof name);
  snprintf(why, size,
           "has %s for its %s instead of what ftrun gave it, and a clone cannot be connected to "
           "its other end",
           name, kNames[fd]);
  return false;
}

// Whether a device has no contents, or contents that do not matter: null, zero, random; terminals.
bool is_harmless_device(dev_t device) {
  constexpr unsigned kTerminal = 5, kFirstPty = 136, kLastPty = 143;
  const unsigned major_number = major(device);
  return is_memory(device) || major_number == kTerminal ||
         (major_number >= kFirstPty && major_number <= kLastPty);
}

}  // namespace

bool OpenFiles::note(int own, char* why, std::size_t size) {
  std::swap(files_, before_);
  std::swap(room_, before_room_);
  before_count_ = std::exchange(count_, 0);
  found_lock_ = false;
  channels_.begin();
  snprintf(why, size, "cannot list its open files");
  return wire::each_descriptor([&](int fd) { return fd == own || note_one(fd, why, size); }) &&
         channels_.complete(why, size);
}

// Whether the file has a lock that a clone would still hold after this process has closed the file.
// (Locks of fcntl() belong to one process.)
bool OpenFiles::is_locked(int fd, char* why, std::size_t size) {
  char path[40], text[2048];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  const int info = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = info < 0 ? 0 : read(info, text, sizeof text - 1);
  if (info >= 0) close(info);
  const bool whole = n > 0 && n < static_cast<ssize_t>(sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  if (whole && strstr(text, " FLOCK ") == nullptr && strstr(text, " OFDLCK ") == nullptr) {
    return false;  // a text that is not whole has more locks than can be looked at
  }
  char name[256];
  name_of(fd, name, sizeof name);
  snprintf(why, size, "has locked %s, and a clone would hold the lock, too", name);
  return true;
}

bool OpenFiles::note_one(int fd, char* why, std::size_t size) {
  struct stat s;
  if (fstat(fd, &s) != 0) return true;
  File f = {fd,       -1,       fcntl(fd, F_GETFL), 0, static_cast<std::uint64_t>(s.st_size),
            s.st_dev, s.st_ino, modified_ns(s),     0};
  if ((S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)) && is_locked(fd, why, size)) {
    found_lock_ = true;
    return false;
  }
  if (S_ISREG(s.st_mode)) return note_regular(f, why, size);
  if (S_ISDIR(s.st_mode)) {
    f.offset = lseek(fd, 0, SEEK_CUR);
    add(f);
    return true;
  }
  // Checked before standard_pipe(): the standard input of most ranks is /dev/null, and a descriptor
  // of it that the program has opened must not be replaced.
  if (S_ISCHR(s.st_mode) && is_memory(s.st_rdev)) return true;
  if (const int pipe = recovery::standard_pipe(s.st_dev, s.st_ino); pipe >= 0) {
    f.pipe = pipe;
    add(f);
    return true;
  }
  if (fd < 3) return refuse_standard(fd, why, size);
  if (S_ISCHR(s.st_mode) && is_harmless_device(s.st_rdev)) return true;
  // This is ftrun's lifeline, or the descriptor was there before the program.
  if (fcntl(fd, F_GETSIG) == SIGKILL || recovery::is_inherited(fd)) return true;
  if (channels_.add(fd, s)) return true;
  char name[256];
  name_of(fd, name, sizeof name);
  snprintf(why, size, "has %s open, and a clone cannot be connected to its other end", name);
  return false;
}

bool OpenFiles::note_regular(File& f, char* why, std::size_t size) {
  f.offset = lseek(f.fd, 0, SEEK_CUR);
  if ((f.flags & O_ACCMODE) == O_RDWR) {
    // The program may read again what has been overwritten since.
    const File* before = known(f);
    const bool good = f.size_bytes <= kMostHashedBytes &&
                      (before != nullptr ? (f.hash = before->hash, true)
                                         : hash_contents(f.fd, f.size_bytes, &f.hash));
    if (!good) {
      char name[256];
      name_of(f.fd, name, sizeof name);
      snprintf(why, size,
               "has %s open for reading and writing, which is too large to be checked for changes "
               "(%llu bytes)",
               name, static_cast<unsigned long long>(f.size_bytes));
      return false;
    }
  }
  add(f);
  return true;
}

// Returns what note() found last time for the same file, if it is unchanged, so that its hash need
// not be computed again; else nullptr.
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
        snprintf(why, size, "its pipes could not be connected");
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
        snprintf(why, size, "%s was overwritten since the snapshot, and the program may read it",
                 name);
        return;
      }
    }
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const File& f = files_[i];
    if (f.pipe < 0 && f.offset >= 0) lseek(f.fd, f.offset, SEEK_SET);
  }
  channels_.restore(why, size);
}

void OpenFiles::write_on() const {
  if (rejoin_libc_write_on == nullptr) return;
  for (std::size_t i = 0; i < count_; ++i) {
    const File& f = files_[i];
    if (f.pipe < 0 && (f.flags & O_ACCMODE) != O_RDONLY) rejoin_libc_write_on(f.fd, f.size_bytes);
  }
}

// --- For a written image

bool OpenFiles::note_names(const int* own, std::size_t owns, char* why, std::size_t size) {
  names_ = static_cast<Name*>(arena_.allocate(kMostNames * sizeof(Name)));
  name_count_ = 0;
  snprintf(why, size, "cannot list its open files");
  return names_ != nullptr && wire::each_descriptor([&](int fd) {
           return std::find(own, own + owns, fd) != own + owns || name_one(fd, why, size);
         });
}

bool OpenFiles::is_piped(int fd) const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (files_[i].fd == fd) return files_[i].pipe >= 0;
  }
  return false;
}

bool OpenFiles::name_one(int fd, char* why, std::size_t size) {
  struct stat s, found;
  if (is_piped(fd) || fstat(fd, &s) != 0 || fcntl(fd, F_GETSIG) == SIGKILL) return true;
  const bool opens = S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) ||
                     (S_ISCHR(s.st_mode) && is_harmless_device(s.st_rdev));
  if (!opens) return true;  // it was inherited, and the new process inherits its own
  char path[PATH_MAX];
  name_of(fd, path, sizeof path);
  if (stat(path, &found) != 0 || found.st_dev != s.st_dev || found.st_ino != s.st_ino) {
    snprintf(why, size, "has %.300s open, which no new process can open by that name", path);
    return false;
  }
  const std::size_t bytes = strlen(path) + 1;
  Name n = {};
  n.path = static_cast<char*>(arena_.allocate(bytes));
  if (name_count_ == kMostNames || n.path == nullptr) {
    snprintf(why, size, "has more files open than a written image can restore");
    return false;
  }
  memcpy(n.path, path, bytes);
  n.fd = fd;
  n.flags = fcntl(fd, F_GETFL) & ~(O_CREAT | O_EXCL | O_TRUNC);
  n.inherited = (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
  if (!find_same(n, why, size)) return false;
  const bool reads = S_ISREG(s.st_mode) && (n.flags & O_ACCMODE) == O_RDONLY;
  n.least_bytes = reads ? static_cast<std::uint64_t>(s.st_size) : 0;
  names_[name_count_++] = n;
  return true;
}

bool OpenFiles::find_same(Name& n, char* why, std::size_t size) const {
  n.same_as = -1;
  for (std::size_t i = 0; i < name_count_ && n.same_as < 0; ++i) {
    const auto same = are_one_file(n.fd, names_[i].fd);
    if (!same) {
      snprintf(why, size,
               "has %.300s open twice, and whether with one offset cannot be known here (kcmp)",
               n.path);
      return false;
    }
    if (*same) n.same_as = names_[i].fd;
  }
  return true;
}

bool OpenFiles::reopen(char* why, std::size_t size) const {
  for (int fd = 0; fd < 3; ++fd) {
    if (!is_piped(fd)) close(fd);
  }
  for (std::size_t i = 0; i < name_count_; ++i) {
    if (!open_again(names_[i], why, size)) return false;
  }
  return true;
}

bool OpenFiles::open_again(const Name& n, char* why, std::size_t size) const {
  const int now = n.same_as >= 0 ? fcntl(n.same_as, F_DUPFD, 0) : open(n.path, n.flags);
  if (now < 0) {
    snprintf(why, size, "%s cannot be opened again: %s", n.path, strerrordesc_np(errno));
    return false;
  }
  struct stat s;
  if (fstat(now, &s) == 0 && static_cast<std::uint64_t>(s.st_size) < n.least_bytes) {
    snprintf(why, size, "%s is shorter than when the image was made", n.path);
    return false;
  }
  if (now != n.fd) {
    dup2(now, n.fd);
    close(now);
  }
  fcntl(n.fd, F_SETFD, n.inherited ? 0 : FD_CLOEXEC);
  return true;
}

}  // namespace rejoin::process_image
