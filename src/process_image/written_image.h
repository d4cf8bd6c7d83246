// The file of a written image of a rank's process, and the input of the process restored from it.
//
//     File    := ImageHead Mapping{until one with no bytes}
//     Mapping := MappingHead path Piece{until one with no bytes}
//     Piece   := Extent page{of the extent}
//
// The file is written by a clone of an image (image_writing.h). It is read by the restorer
// (restorer.cc), which uses no library, and by ftrun, which compares the files that were mapped
// with those that are there now.
#pragma once

#include <cstdint>

namespace rejoin::process_image {

inline constexpr char kImageMagic[8] = {'R', 'E', 'J', 'O', 'I', 'N', 'I', 'M'};
inline constexpr std::uint32_t kImageFormat = 1;
inline constexpr std::uint64_t kImagePageBytes = 4096;

// Where the restorer works, while everything else is unmapped: far from the journal, the shim's
// memory, and whatever a kernel without address randomisation maps by itself.
inline constexpr std::uint64_t kRestorerAddress = 0x1d0000000000;
inline constexpr std::uint64_t kRestorerBytes = 4 << 20;
// The end of the addresses, and so of the stack, of a process without address randomisation.
inline constexpr std::uint64_t kAddressesEnd = 0x7ffffffff000;

// The argument of ImageHead::entry in a restored process. Lies at kRestorerAddress.
struct Restored {
  std::uint32_t incarnation;
  std::int32_t pipes[3];  // descriptors that become its standard input, output and error
  // The agent's socket and the job's secret, as in the environment (wire/messages.h).
  char socket[112];
  char secret[48];
  char file_log[4096];  // the directory of wire/file_log.h
};

struct ImageHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t rank;
  std::uint64_t number;
  std::uint64_t head_bytes;
  std::uint64_t brk;
  std::uint64_t fs_base;
  std::uint64_t gs_base;
  std::uint64_t entry;  // void (*)(const Restored*), with this stack
  std::uint64_t stack;
  char executable[4096];  // the path of its file
};

struct MappingHead {
  enum class Kind : std::uint32_t {
    kEnd,
    kMemory,  // no file, or one that is not there any more: all of it is in the pieces
    kFile,    // what is in no piece is in the file
    kKernel,  // vdso and its data: where they were
  };
  Kind kind;
  std::uint32_t path_bytes;  // with the NUL. The path of kKernel is its name in /proc/PID/maps
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t offset;  // in the file
  std::uint32_t protection;
  std::uint32_t shared;  // a read-only mapping that is shared with other processes
};

struct Extent {
  std::uint64_t begin;
  std::uint64_t bytes;
};

// Exit codes of a restorer that cannot go on, when it can no longer send a reason to the agent.
enum RestorerStep : int {
  kRestorerMaps = 64,
  kRestorerBrk,
  kRestorerUnmap,
  kRestorerKernel,
  kRestorerMemory,
  kRestorerFile,
  kRestorerContents,
  kRestorerThread,
  kRestorerKernelState,
  kRestorerDescriptors,
};

}  // namespace rejoin::process_image
