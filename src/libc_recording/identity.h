// The identity of a file, which differs also from that of an earlier file with the same inode
// number.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <new>

#include "journal/system_call.h"
#include "libc_recording/observation.h"

namespace rejoin::libc_recording {

struct FoundFile {
  bool there = false;
  unsigned mode = 0;  // as in struct stat
  OpenedFile file = {};
  bool regular() const { return S_ISREG(mode); }
  bool directory() const { return S_ISDIR(mode); }
};

inline std::uint64_t mix_into(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

// The inode number of a removed file is soon given to another file. The identity therefore includes
// the file handle, which differs, or the time of birth where there is no handle.
inline std::uint64_t generation_of(int dirfd, const char* path, int flags, const struct statx& s) {
  alignas(file_handle) unsigned char room[sizeof(file_handle) + MAX_HANDLE_SZ];
  auto* handle = new (room) file_handle{MAX_HANDLE_SZ, 0, {}};
  int mount;
  const int follow = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? 0 : AT_SYMLINK_FOLLOW;
  std::uint64_t h = 0;
  if (name_to_handle_at(dirfd, path, handle, &mount, (flags & AT_EMPTY_PATH) | follow) == 0) {
    for (unsigned i = 0; i < handle->handle_bytes; ++i) {
      h = mix_into(h, room[sizeof *handle + i]);
    }
  } else if ((s.stx_mask & STATX_BTIME) != 0) {
    h = mix_into(static_cast<std::uint64_t>(s.stx_btime.tv_sec), s.stx_btime.tv_nsec);
  }
  return h;
}

// Fills in what find_file() needs. For old seccomp profiles, which forbid statx().
inline bool stat_instead(int dirfd, const char* path, int flags, struct statx* s) {
  struct stat found;
  const long result = journal::system_call(SYS_newfstatat, dirfd, reinterpret_cast<long>(path),
                                           reinterpret_cast<long>(&found), flags);
  if (result != 0) errno = static_cast<int>(-result);
  if (result != 0) return false;
  *s = {};
  s->stx_mode = static_cast<__u16>(found.st_mode);
  s->stx_ino = found.st_ino;
  s->stx_size = static_cast<__u64>(found.st_size);
  s->stx_dev_major = major(found.st_dev);
  s->stx_dev_minor = minor(found.st_dev);
  s->stx_mtime.tv_sec = found.st_mtim.tv_sec;
  s->stx_mtime.tv_nsec = static_cast<__u32>(found.st_mtim.tv_nsec);
  return true;
}

// `stat`: statx(), or a function like it. Changes errno.
template <class Statx>
FoundFile find_file(Statx&& stat, int dirfd, const char* path, int flags) {
  struct statx s;
  FoundFile found;
  found.there = stat(dirfd, path, flags, STATX_BASIC_STATS | STATX_BTIME, &s) == 0 ||
                (errno == EPERM && stat_instead(dirfd, path, flags, &s));
  if (!found.there) return found;
  const std::uint64_t device = std::uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor;
  const std::uint64_t file =
      mix_into(mix_into(s.stx_ino, device), generation_of(dirfd, path, flags, s));
  const std::uint64_t modified =
      mix_into(static_cast<std::uint64_t>(s.stx_mtime.tv_sec), s.stx_mtime.tv_nsec);
  found.mode = s.stx_mode;
  found.file = {static_cast<std::uint32_t>(file) | 1, static_cast<std::uint32_t>(modified),
                s.stx_size};
  return found;
}

}  // namespace rejoin::libc_recording
