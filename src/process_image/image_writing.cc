#include "process_image/image_writing.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "journal/layout.h"

namespace rejoin::process_image {
namespace {

using Kind = MappingHead::Kind;

constexpr std::uint64_t kPage = kImagePageBytes;

// Flags in /proc/self/pagemap.
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;

// The argument of PAGEMAP_SCAN (Linux 6.7; linux/fs.h), which skips unused address space at once.
struct PagemapScan {
  struct Region {
    std::uint64_t begin, end, categories;
  };
  static constexpr unsigned long kIoctl = 0xc0606610;
  static constexpr std::uint64_t kPresent = 1 << 3, kSwapped = 1 << 4;  // categories
  std::uint64_t size, flags, begin, end, walked_to, regions, most_regions, most_pages;
  std::uint64_t inverted, all_of, any_of, returned;
};
static_assert(sizeof(PagemapScan) == 0x60);

// A line of /proc/self/maps.
struct Line {
  std::uint64_t begin, end, offset;
  char permissions[4];  // "rwxp"
  dev_t device;
  ino_t number;
  const char* path;  // "": none
};

bool parse(char* text, Line* line) {
  char* p = text;
  line->begin = strtoul(p, &p, 16);
  if (*p++ != '-') return false;
  line->end = strtoul(p, &p, 16);
  if (*p++ != ' ' || strlen(p) < 5) return false;
  memcpy(line->permissions, p, 4);
  p += 5;
  line->offset = strtoul(p, &p, 16);
  const auto major_number = static_cast<unsigned>(strtoul(p, &p, 16));
  if (*p++ != ':') return false;
  const auto minor_number = static_cast<unsigned>(strtoul(p, &p, 16));
  line->device = makedev(major_number, minor_number);
  line->number = strtoul(p, &p, 10);
  while (*p == ' ') ++p;
  line->path = p;
  return true;
}

class ImageWriter {
 public:
  explicit ImageWriter(int file) : file_(file) {}

  int write(ImageHead& head) {
    memory_ = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    pagemap_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (memory_ < 0 || pagemap_ < 0 || maps < 0) return errno;
    put(&head, sizeof head);
    each_line(maps);
    const MappingHead end = {};
    put(&end, sizeof end);
    flush();
    return error_;
  }

 private:
  void fail(int error) {
    if (error_ == 0) error_ = error;
  }

  // Writes each mapping of `maps`, as it is when it is read. Meanwhile this process writes only to
  // its stack, below the frame at which the restored process goes on, and to this object.
  void each_line(int maps) {
    std::size_t there = 0;
    for (ssize_t n; (n = read(maps, lines_ + there, sizeof lines_ - 1 - there)) > 0;) {
      there += static_cast<std::size_t>(n);
      char* line = lines_;
      for (char* end; (end = static_cast<char*>(memchr(line, '\n', rest(line, there)))) != nullptr;
           line = end + 1) {
        *end = '\0';
        Line parsed;
        if (!parse(line, &parsed)) return fail(EINVAL);
        mapping(parsed);
        if (error_ != 0) return;
      }
      there = rest(line, there);
      memmove(lines_, line, there);
    }
  }
  std::size_t rest(const char* from, std::size_t there) const {
    return there - static_cast<std::size_t>(from - lines_);
  }

  void mapping(const Line& line) {
    MappingHead head = {};
    head.begin = line.begin;
    head.end = line.end;
    const char* p = line.permissions;
    head.protection =
        static_cast<std::uint32_t>((p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0) |
                                   (p[2] == 'x' ? PROT_EXEC : 0));
    head.shared = p[3] == 's';
    const bool kernels = strncmp(line.path, "[v", 2) == 0;
    if (strcmp(line.path, "[vsyscall]") == 0) return;
    if (kernels) {
      head.kind = Kind::kKernel;
    } else {
      head.kind = is_there(line) ? Kind::kFile : Kind::kMemory;
    }
    // Writable memory that is shared with other processes is an obstacle to freezing, except for
    // the journal.
    if (head.shared != 0 && head.kind != Kind::kFile) return fail(EPERM);
    if (head.kind == Kind::kFile) head.offset = line.offset;
    const bool named = head.kind != Kind::kMemory;
    head.path_bytes = named ? static_cast<std::uint32_t>(strlen(line.path) + 1) : 0;
    const bool has_contents = head.kind != Kind::kKernel && head.shared == 0;
    const bool lost_file = head.kind == Kind::kMemory && line.number != 0;
    put(&head, sizeof head);
    put(line.path, head.path_bytes);
    if (has_contents) pieces(head, lost_file);
    const Extent none = {};
    put(&none, sizeof none);
  }

  // Whether its file is still the one that has its path.
  static bool is_there(const Line& line) {
    struct stat s;
    return line.path[0] == '/' && stat(line.path, &s) == 0 && S_ISREG(s.st_mode) &&
           s.st_dev == line.device && s.st_ino == line.number;
  }

  // Writes the pages that differ from the file, or from a fresh mapping, but not those of this
  // object.
  void pieces(const MappingHead& m, bool whole) {
    Extent now = {m.begin, 0};
    const auto add = [&](std::uint64_t page) {
      if (now.bytes > 0 && now.begin + now.bytes == page) {
        now.bytes += kPage;
        return;
      }
      contents(now);
      now = {page, kPage};
    };
    constexpr std::uint64_t kAtOnce = sizeof entries_ / sizeof entries_[0];
    std::uint64_t count = 0;
    for (std::uint64_t at = m.begin; at < m.end && error_ == 0; at += count * kPage) {
      if (!whole) at = first_there(at, m.end);
      count = std::min(kAtOnce, (m.end - at) / kPage);
      const auto offset = static_cast<off_t>(at / kPage * sizeof entries_[0]);
      const auto bytes = static_cast<ssize_t>(count * sizeof entries_[0]);
      if (pread(pagemap_, entries_, static_cast<std::size_t>(bytes), offset) != bytes) {
        return fail(EIO);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t page = at + i * kPage;
        const bool there = (entries_[i] & (kPresent | kSwapped)) != 0;
        if (!is_mine(page) && (whole || (there && (entries_[i] & kOfFile) == 0))) add(page);
      }
    }
    contents(now);
  }

  // Returns a page from which to search for contents: there are none in [at, it). `end` if there
  // are none at all. Kernels without PAGEMAP_SCAN: `at`.
  std::uint64_t first_there(std::uint64_t at, std::uint64_t end) const {
    PagemapScan::Region found = {};
    PagemapScan scan = {};
    scan.size = sizeof scan;
    scan.begin = at;
    scan.end = end;
    scan.regions = reinterpret_cast<std::uint64_t>(&found);
    scan.most_regions = 1;
    scan.any_of = scan.returned = PagemapScan::kPresent | PagemapScan::kSwapped;
    const long n = syscall(SYS_ioctl, pagemap_, PagemapScan::kIoctl, &scan);
    if (n == 0) return end;
    return n == 1 ? found.begin : at;
  }

  bool is_mine(std::uint64_t page) const {
    const auto begin = reinterpret_cast<std::uint64_t>(this);
    return page + kPage > begin && page < begin + sizeof *this;
  }

  void contents(const Extent& e) {
    if (e.bytes == 0) return;
    put(&e, sizeof e);
    for (std::uint64_t done = 0; done < e.bytes && error_ == 0;) {
      if (filled_ == sizeof buffer_) flush();
      const std::uint64_t n = std::min<std::uint64_t>(e.bytes - done, sizeof buffer_ - filled_);
      const ssize_t got = pread(memory_, buffer_ + filled_, n, static_cast<off_t>(e.begin + done));
      if (got <= 0) return fail(got < 0 ? errno : EIO);
      filled_ += static_cast<std::size_t>(got);
      done += static_cast<std::uint64_t>(got);
    }
  }

  void put(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0 && error_ == 0) {
      if (filled_ == sizeof buffer_) flush();
      const std::size_t n = std::min(bytes, sizeof buffer_ - filled_);
      memcpy(buffer_ + filled_, from, n);
      filled_ += n;
      from += n;
      bytes -= n;
    }
  }

  void flush() {
    for (std::size_t done = 0; done < filled_ && error_ == 0;) {
      const ssize_t n = ::write(file_, buffer_ + done, filled_ - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(n < 0 ? errno : ENOSPC);
      if (n > 0) done += static_cast<std::size_t>(n);
    }
    filled_ = 0;
  }

  const int file_;
  int memory_ = -1;
  int pagemap_ = -1;
  int error_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t entries_[4096];
  char lines_[16384];
  char buffer_[256 * 1024];
};

std::uint64_t base_of(int which) {
  std::uint64_t base = 0;
  syscall(SYS_arch_prctl, which, &base);
  return base;
}

}  // namespace

int write_image(int file, ImageHead& head) {
  const int mode = personality(0xffffffff);  // a seccomp filter may forbid even the question
  if (mode == -1 || (mode & ADDR_NO_RANDOMIZE) == 0) return EOPNOTSUPP;
  memcpy(head.magic, kImageMagic, sizeof kImageMagic);
  head.format = kImageFormat;
  head.head_bytes = sizeof head;
  head.brk = static_cast<std::uint64_t>(syscall(SYS_brk, 0));
  head.fs_base = base_of(ARCH_GET_FS);
  head.gs_base = base_of(ARCH_GET_GS);
  const ssize_t n = readlink("/proc/self/exe", head.executable, sizeof head.executable - 1);
  if (n <= 0) return errno;
  head.executable[n] = '\0';
  // The writer is not on the stack, which may be small, and changes while it is written.
  void* place = mmap(nullptr, sizeof(ImageWriter), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return errno;
  return (new (place) ImageWriter(file))->write(head);
}

}  // namespace rejoin::process_image
