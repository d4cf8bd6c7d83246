// Directories: what one holds, and in what order, is an observation made when it is opened. All
// entries are read then, and handed out one by one.
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "libc_recording/files.h"
#include "libc_recording/process.h"
#include "libc_recording/real.h"

namespace rejoin::libc_recording {
namespace {

REJOIN_REAL(opendir);
REJOIN_REAL(fdopendir);
REJOIN_REAL(readdir);
REJOIN_REAL_AS(readdir_r, "readdir_r", int(DIR*, dirent*, dirent**));  // its header deprecates it
REJOIN_REAL(rewinddir);
REJOIN_REAL(telldir);
REJOIN_REAL(seekdir);
REJOIN_REAL(closedir);

// The entries of an open directory, in memory of the recording.
struct Listing {
  Listing* next;
  DIR* stream;
  std::uint32_t room, bytes;  // space for entries, and how much of it they use
  std::uint32_t position;

  char* entries() { return reinterpret_cast<char*>(this + 1); }
  dirent* at(std::uint32_t p) { return reinterpret_cast<dirent*>(entries() + p); }
};

Listing* open_listings = nullptr;
pthread_mutex_t listings_lock = PTHREAD_MUTEX_INITIALIZER;

class Locked {
 public:
  Locked() { pthread_mutex_lock(&listings_lock); }
  ~Locked() { pthread_mutex_unlock(&listings_lock); }
};

Listing* find(DIR* stream) {
  const Locked locked;
  Listing* l = open_listings;
  while (l != nullptr && l->stream != stream) l = l->next;
  return l;
}

void add(Listing* l, DIR* stream) {
  const Locked locked;
  l->stream = stream;
  l->next = open_listings;
  open_listings = l;
}

Listing* take(DIR* stream) {
  const Locked locked;
  for (Listing** l = &open_listings; *l != nullptr; l = &(*l)->next) {
    if ((*l)->stream != stream) continue;
    Listing* found = *l;
    *l = found->next;
    return found;
  }
  return nullptr;
}

Listing* make(std::uint32_t room) {
  auto* l = static_cast<Listing*>(rejoin_libc_allocate(sizeof(Listing) + room));
  *l = {nullptr, nullptr, room, 0, 0};
  return l;
}

void release(Listing* l) { rejoin_libc_release(l, sizeof(Listing) + l->room); }

Listing* read_all(DIR* stream) {
  constexpr std::uint32_t kFirst = 4096;
  Listing* l = make(kFirst);
  while (const dirent* d = real_readdir(stream)) {
    if (l->room - l->bytes < d->d_reclen) {
      Listing* larger = make(2 * l->room);
      memcpy(larger->entries(), l->entries(), l->bytes);
      larger->bytes = l->bytes;
      release(l);
      l = larger;
    }
    memcpy(l->entries() + l->bytes, d, d->d_reclen);
    l->bytes += d->d_reclen;
  }
  return l;
}

// Opens a directory with its recorded entries, or reads and records them. open() opens the stream.
template <class Open>
DIR* open_listed(const char* path, Open open) {
  Event e{ObservationKind::kDirectory, 0, path};
  Listing* l = make(rejoin_libc_next_answer_bytes());
  e.data = l->entries();
  e.room_bytes = l->room;
  if (ask(e) == Answer::kRecorded) {
    l->bytes = e.data_bytes;
    DIR* stream = e.error == 0 ? open() : nullptr;
    if (stream != nullptr) {
      add(l, stream);
      return stream;
    }
    release(l);
    if (e.error == 0) {
      untrue(path != nullptr ? path : "a directory",
             "was opened in the first execution, but cannot be opened in the replay: %s",
             strerrordesc_np(errno));
    } else {
      errno = e.error;
    }
    return nullptr;
  }
  release(l);
  DIR* stream = open();
  if (stream == nullptr) {
    e.error = errno;
    record(e);
    errno = e.error;
    return nullptr;
  }
  l = read_all(stream);
  e.data = l->entries();
  e.data_bytes = l->bytes;
  record(e);
  add(l, stream);
  return stream;
}

}  // namespace
}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

REJOIN_REPLACES DIR* opendir(const char* path) {
  if (!observing(REJOIN_CALLER)) return real_opendir(path);
  char own[PATH_MAX];
  if (!ordinary(path)) return real_opendir(own_proc_path(REJOIN_CALLER, path, own));
  return open_listed(path, [&] { return real_opendir(path); });
}

REJOIN_REPLACES DIR* fdopendir(int fd) {
  if (!observing(REJOIN_CALLER)) return real_fdopendir(fd);
  return open_listed(nullptr, [&] { return real_fdopendir(fd); });
}

REJOIN_REPLACES dirent* readdir(DIR* stream) {
  Listing* l = find(stream);
  if (l == nullptr) return real_readdir(stream);
  if (l->position >= l->bytes) return nullptr;
  dirent* d = l->at(l->position);
  l->position += d->d_reclen;
  return d;
}
REJOIN_REPLACES dirent64* readdir64(DIR*) __attribute__((alias("readdir")));
static_assert(sizeof(dirent) == sizeof(dirent64));

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
REJOIN_REPLACES int readdir_r(DIR* stream, dirent* entry, dirent** result) {
  if (find(stream) == nullptr) return real_readdir_r(stream, entry, result);
  const dirent* d = readdir(stream);
  *result = d != nullptr ? entry : nullptr;
  if (d != nullptr) memcpy(entry, d, std::min<std::size_t>(d->d_reclen, sizeof *entry));
  return 0;
}
REJOIN_REPLACES int readdir64_r(DIR*, dirent64*, dirent64**) __attribute__((alias("readdir_r")));
#pragma GCC diagnostic pop

REJOIN_REPLACES void rewinddir(DIR* stream) noexcept {
  Listing* l = find(stream);
  if (l == nullptr || !observing(REJOIN_CALLER)) {
    if (l != nullptr) l->position = 0;
    return real_rewinddir(stream);
  }
  release(take(stream));
  open_listed(nullptr, [&] {
    real_rewinddir(stream);
    return stream;
  });
}

REJOIN_REPLACES long telldir(DIR* stream) noexcept {
  const Listing* l = find(stream);
  return l != nullptr ? l->position : real_telldir(stream);
}

REJOIN_REPLACES void seekdir(DIR* stream, long position) noexcept {
  Listing* l = find(stream);
  if (l == nullptr) return real_seekdir(stream, position);
  l->position = static_cast<std::uint32_t>(position);
}

REJOIN_REPLACES int closedir(DIR* stream) {
  Listing* l = take(stream);
  // Another thread does not release it, because the memory is the main thread's.
  if (l != nullptr && observing(REJOIN_CALLER)) release(l);
  return real_closedir(stream);
}

REJOIN_REPLACES int scandir(const char* path, dirent*** out, int (*wanted)(const dirent*),
                            int (*compare)(const dirent**, const dirent**)) {
  DIR* stream = opendir(path);
  if (stream == nullptr) return -1;
  dirent** found = nullptr;
  std::size_t count = 0, room = 0;
  bool good = true;
  while (const dirent* d = good ? readdir(stream) : nullptr) {
    if (wanted != nullptr && wanted(d) == 0) continue;
    if (count == room) {
      room = room == 0 ? 16 : 2 * room;
      auto** more = static_cast<dirent**>(realloc(found, room * sizeof *found));
      good = more != nullptr;
      if (!good) break;
      found = more;
    }
    found[count] = static_cast<dirent*>(malloc(d->d_reclen));
    good = found[count] != nullptr;
    if (good) memcpy(found[count++], d, d->d_reclen);
  }
  closedir(stream);
  if (!good) {
    while (count > 0) free(found[--count]);
    free(found);
    errno = ENOMEM;
    return -1;
  }
  if (count > 0 && compare != nullptr) {
    qsort(found, count, sizeof *found,
          reinterpret_cast<int (*)(const void*, const void*)>(compare));
  }
  *out = found;
  return static_cast<int>(count);
}
REJOIN_REPLACES int scandir64(const char*, dirent64***, int (*)(const dirent64*),
                              int (*)(const dirent64**, const dirent64**))
    __attribute__((alias("scandir")));
