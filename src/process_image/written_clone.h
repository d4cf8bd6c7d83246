// A clone of an image that writes itself to a file (written_image.h), and the process that is
// restored from the file.
#pragma once

#include <setjmp.h>

#include <cstddef>
#include <cstdint>

#include "process_image/cloner.h"
#include "process_image/kernel_state.h"
#include "process_image/open_files.h"
#include "process_image/uncloned_state.h"
#include "process_image/written_image.h"
#include "recovery/attach.h"

namespace rejoin::process_image {

class WrittenClone {
 public:
  WrittenClone(recovery::Rank& rank, const UnclonedState& uncloned, OpenFiles& files,
               const Cloner& cloner)
      : rank_(rank), uncloned_(uncloned), files_(files), cloner_(cloner) {}
  WrittenClone(const WrittenClone&) = delete;
  WrittenClone& operator=(const WrittenClone&) = delete;

  // Called in a clone of the image, whose connection to the agent is `agent`: writes the clone to
  // `file`, of this set, and ends. Returns in a process that has been given what the file holds,
  // with what it was given besides; if it cannot be the rank, `why` becomes a sentence.
  const Restored& write(int agent, int file, std::uint32_t set, char* why, std::size_t size);

  // Called in a process that is the rank: truncates what was written to files since the image, if
  // it was restored from a file.
  void roll_back_files();

 private:
  const Restored& go_on_restored(char* why, std::size_t size);
  static void restored(const Restored* by);

  recovery::Rank& rank_;
  const UnclonedState& uncloned_;
  OpenFiles& files_;
  const Cloner& cloner_;
  KernelState state_ = {};
  jmp_buf place_;  // where a restored process begins
  Restored given_ = {};
  bool written_since_ = false;  // other processes may have written files since the image
  static inline WrittenClone* restored_ = nullptr;
};

}  // namespace rejoin::process_image
