// A frozen image of this process: a clone that sleeps until the agent wakes it, when the rank has
// died (docs/snapshots.md).
//
// An image sleeps in a read from its own connection to the agent. Whenever the agent asks, the
// image clones itself once more, and that clone goes on as the rank's next incarnation, or writes
// itself to a file (written_clone.h). The image stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "process_image/cloner.h"
#include "process_image/open_files.h"
#include "process_image/other_threads.h"
#include "process_image/uncloned_state.h"
#include "process_image/written_clone.h"
#include "recovery/attach.h"

namespace rejoin::process_image {

class FrozenImage {
 public:
  // woken() is called in a clone of the image, when it is the rank.
  FrozenImage(recovery::Rank& rank, const UnclonedState& state, OpenFiles& files,
              OtherThreads& threads, const Cloner& cloner, void (*woken)())
      : rank_(rank),
        state_(state),
        files_(files),
        threads_(threads),
        cloner_(cloner),
        woken_(woken),
        written_(rank, state, files, cloner) {}
  FrozenImage(const FrozenImage&) = delete;
  FrozenImage& operator=(const FrozenImage&) = delete;

  // Called in the rank before it is cloned: notes what an image, which has no journal, cannot read.
  void prepare();
  // Called in the clone, which becomes an image. Returns in clones of the image that are the rank;
  // their other threads are stopped.
  void be();

 private:
  void sleep_until_woken();
  void be_written(int file, std::uint32_t set);
  void become_rank(std::uint32_t incarnation, const int* pipes, const char* reason);

  recovery::Rank& rank_;
  const UnclonedState& state_;
  OpenFiles& files_;
  OtherThreads& threads_;
  const Cloner& cloner_;
  void (*const woken_)();
  WrittenClone written_;
  std::uint32_t incarnation_ = 0;
  std::size_t segment_bytes_ = 0;
  int agent_ = -1;              // the image's connection
  bool files_go_back_ = false;  // as it was woken the last time
};

}  // namespace rejoin::process_image
