#include "engine/transport/shm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "engine/names.h"
#include "journal/layout.h"
#include "wire/socket.h"

namespace rejoin::engine {
namespace {

void write_file(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) errno = 0;  // the mount then fails, and says so
  close(fd);
}

std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

constexpr std::uint64_t kLargePageBytes = 2 << 20;

// Called in the child: returns an unnamed file on a tmpfs with large pages, or -1.
int open_large_pages() {
  const uid_t user = geteuid();
  if (unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return -1;
  if (user != 0) {
    char map[32];
    snprintf(map, sizeof map, "0 %u 1", user);
    write_file("/proc/self/uid_map", map);
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return -1;
  if (mount("rejoin", "/tmp", "tmpfs", 0, "huge=advise,size=0") != 0) return -1;
  return open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int make_large_pages() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open_large_pages();
    const char byte = 0;
    if (fd >= 0) wire::send_datagram(pair[1], &byte, sizeof byte, {1, {fd}});
    _exit(0);
  }
  close(pair[1]);
  char byte;
  wire::Descriptors made;
  if (child > 0) wire::receive_datagram(pair[0], &byte, sizeof byte, &made);
  close(pair[0]);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return made.fd[0];
}

}  // namespace

int make_segment_memory(std::uint64_t bytes) {
  int fd = make_large_pages();
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) close(fd);
  fd = memfd_create("rejoin", MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

void back_front(std::byte* region) {
  constexpr std::uint64_t kPage = 4096;
  if (madvise(region, kLargePageBytes, MADV_HUGEPAGE) == 0) madvise(region, kPage, kPopulateWrite);
}

void advise_segment(std::byte* base, std::uint32_t rank) {
  // Small jobs use less than this; they would pay for whole large pages that they do not fill.
  constexpr std::uint64_t kSmallPagesBytes = 4 << 20;
  constexpr std::uint32_t kManyRanks = 64;
  const SegmentHeader* h = header_of(base);
  const std::uint64_t payload = payload_begin(h);
  for (std::uint32_t r = 0; r < h->ranks; ++r) {
    if (h->ranks > kManyRanks && r != rank) continue;
    std::byte* region = base + region_offset(h, r);
    const bool is_prefaulted = h->prefaulted_bytes != 0 && !journal::is_elsewhere(base, rank, r);
    const std::uint64_t small = is_prefaulted ? 0 : kSmallPagesBytes;
    madvise(region + small, payload - small, MADV_HUGEPAGE);
    madvise(region + payload + small, h->region_bytes - payload - small, MADV_HUGEPAGE);
  }
}

void prefault_payload(std::byte* base, std::uint32_t rank) {
  constexpr std::uint64_t kMostNs = 4'000'000;
  const SegmentHeader* h = header_of(base);
  if (h->prefaulted_bytes == 0) return;
  // A former incarnation may have used some, and has touched what it used.
  const std::uint64_t used = control_of(base, rank)->payload_bump.load(std::memory_order_relaxed);
  const std::uint64_t end = payload_begin(h) + h->prefaulted_bytes;
  const std::uint64_t most_ns = kMostNs * std::min(h->cores, h->ranks_here) / h->ranks_here;
  const std::uint64_t begin_ns = now_ns();
  std::byte* region = base + region_offset(h, rank);
  for (std::uint64_t at = used / kLargePageBytes * kLargePageBytes; at < end;
       at += kLargePageBytes) {
    if (madvise(region + at, kLargePageBytes, kPopulateWrite) != 0) return;
    if (now_ns() - begin_ns > most_ns) return;
  }
}

}  // namespace rejoin::engine
