// The words of the observation stream: what can be asked of libc, and how it can answer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::libc_recording {

// Values are part of the journal's format.
enum class ObservationKind : std::uint8_t {
  kPad = 0,
  kRepeat = 1,
  kName = 2,
  kHead = 3,
  kBase = 4,
  // Events. Two names where two paths are given; `detail` holds flags and the like.
  kAbout = 8,  // detail: the kind that follows. Answer: u32 file that lay there before; 0 = none;
               // of kTemporary: six letters and two zeros
  kAccess,     // detail: mode and flags
  kStat,       // Answer: struct stat
  kStatx,      // Answer: struct statx
  kOpen,       // detail: flags of open(). Answer: OpenedFile, none if it is no regular file
  kUnlink,
  kRemove,
  kRmdir,
  kRename,
  kMkdir,
  kLink,
  kSymlink,
  kTemporary,   // name: the template. Answer: OpenedFile
  kRandom,      // detail: bytes asked for. Answer: the bytes got
  kHostName,    // Answer: the name
  kSystemName,  // Answer: struct utsname
  kDirectory,   // what opendir() found. Answer: struct dirent*, each as long as it says
  kChild,       // start of a child process. detail: the function that starts it
  kSeries = 0x40,
};

// Numbers that a program reads again and again.
enum class Series : std::uint8_t {
  kTime,       // time(), s
  kTimeOfDay,  // gettimeofday(), us
  kProcessor,  // clock(), us
  kTimes,      // times(): its result and the four fields, clock ticks
  kUsageSelf,  // getrusage(): user us, system us, then the 14 other fields
  kUsageChildren,
  kUsageThread,
  kWtime,   // MPI_Wtime(), ns
  kClock0,  // clock_gettime(), ns; one series a clock id, up to CLOCK_BOOTTIME
  kEnd = kClock0 + 8,
};
inline constexpr std::size_t kSeriesCount = static_cast<std::size_t>(Series::kEnd);
inline constexpr std::size_t kMaxFields = 16;
inline constexpr int kClocks = static_cast<int>(Series::kEnd) - static_cast<int>(Series::kClock0);
constexpr Series series_of_clock(int clock) {  // REQUIRES 0 <= clock < kClocks
  return static_cast<Series>(static_cast<int>(Series::kClock0) + clock);
}
inline constexpr std::int64_t kSecond_ns = 1000000000;
constexpr std::size_t fields_of(Series s) {
  if (s == Series::kTimes) return 5;
  return s >= Series::kUsageSelf && s <= Series::kUsageThread ? kMaxFields : 1;
}

// The state of a file when it had just been opened (and thus after truncation).
struct OpenedFile {
  std::uint32_t file;      // a hash of the file's identity; odd
  std::uint32_t modified;  // a hash of the time of its last change
  std::uint64_t size_bytes;
};

// Process ids of a rank and its parent: as the kernel knows them now, and those of the first
// incarnation.
struct Pids {
  int pid, parent;
  int first_pid, first_parent;
};

// A question and its answer.
struct Event {
  ObservationKind kind;
  std::uint32_t detail = 0;
  const char* name = nullptr;   // the first path
  const char* other = nullptr;  // the second. recall(): nullptr fits any
  int error = 0;                // in the answer: an errno, or 0
  void* data = nullptr;         // the answer's bytes, in room_bytes of the caller's memory
  std::uint32_t room_bytes = 0;
  std::uint32_t data_bytes = 0;  // how many bytes the answer has
};

// Returns a name for messages, such as "gettimeofday" or "open".
const char* name_of(ObservationKind kind);
const char* name_of(Series series);

}  // namespace rejoin::libc_recording
