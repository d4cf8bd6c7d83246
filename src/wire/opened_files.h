// What ranks write down of the files that they open to write into what is there, for jobs that go
// on from written images (docs/snapshots.md): the journal of such a job ends before its processes
// did.
//
//     File := OpenedFileHead path
//
// in DIRECTORY/rank-RANK-image-NUMBER, one for each file that is opened for the first time since
// the image with that number. Written by the rank before its program can write, read by the process
// that goes on from that image, or an older one; removed by ftrun.
#pragma once

#include <cstdint>

namespace rejoin::wire {

struct OpenedFileHead {
  std::uint32_t file;   // its identity
  std::uint32_t flags;  // of open()
  std::uint64_t size_bytes;
  std::uint32_t modified;
  std::uint32_t path_bytes;  // with its NUL
};

// Environment of a rank: DIRECTORY. Not there: nothing is written down.
inline constexpr const char* kEnvOpenedFiles = "REJOIN_OPENED_FILES";

}  // namespace rejoin::wire
