// Makes sets of written images (image_sets.h), until a version of the job is in the directory. Each
// set is begun when SetProgress permits it, or, on several hosts, when the supervisor orders it:
// the journal is copied, the ranks are stopped for the last part of that, and their images then
// write themselves. Without --checkpoint-dir and --survive host no set is made.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/checkpoint_offers.h"
#include "launcher/agent/connections.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/image_sets.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/processes.h"
#include "launcher/agent/reporter.h"
#include "launcher/agent/set_progress.h"
#include "launcher/base/loop.h"
#include "launcher/output/rank_input.h"
#include "wire/messages.h"

namespace rejoin::launcher {

class WrittenSetDriver {
 public:
  // This host's part of a set is written to `path`, or cannot be written: `fault`.
  using PartWritten =
      std::function<void(std::uint64_t set, const std::string& path, const std::string& fault)>;
  // All of them outlive it. `relay`: returns the relay's process; not positive: there is none.
  WrittenSetDriver(Loop& loop, const HostPlan& plan, const JobSegment& segment, AgentCore& core,
                   Processes& processes, Connections& connections, const RankInput& input,
                   const CheckpointOffers& checkpoints, Reporter& reporter,
                   std::function<pid_t()> relay, PartWritten written);

  // On one host, the first set is begun a period after start().
  void start() { set_timer(); }
  // Writes a set that is newer than this, as soon as there is one; or reports that there are
  // versions instead.
  void write_now();
  // On several hosts: writes this host's part of the set, which is the newest one that was kept, or
  // that was made and is not kept yet.
  void write_part(std::uint64_t set);
  // It is not needed any more. 0: whichever it is.
  void give_up_part(std::uint64_t set = 0);
  // All hosts have written their parts.
  void settled(std::uint64_t set);
  // Begins no more sets.
  void stop();
  // Ends the writing.
  void finish();
  // The newest set: that the job has resumed from, or has written.
  const ImageSet& newest() const { return newest_; }

  // An action of the core. An image that a set waits for is ended only after it has cloned itself.
  void end_image(const AgentAction::EndImage& image);
  // Messages from images (wire::MessageType::kWriting, kNotWritten).
  void writing(std::uint32_t rank, const wire::Message& message);
  void not_written(std::uint32_t rank, const wire::Message& message);
  void image_ended(pid_t pid, const Cause& cause);
  // A clone of an image that wrote it has ended.
  void writer_ended(pid_t pid, const Cause& cause, std::uint64_t cpu_ns);
  // Returns how long the newest set has kept a processor from a rank, since write_part(): the
  // processor time of this process, and that of the writers divided by how many run in parallel.
  std::uint64_t cost_ns() const;
  // To be called when a version may have been written, and when an image was kept. Removes all sets
  // after a version was written, in the order given in checkpoint_files.h.
  void remove_superseded();

 private:
  void set_timer(std::uint64_t parts = 1);  // after 1/parts of the period
  void cut();
  bool copy_structure_of_others(SegmentCopy& journal);
  bool stop_ranks();
  void continue_ranks();
  bool write(std::uint64_t images);
  void copy_payload(std::uint64_t bytes);
  void copy_more();
  bool copy_rest();
  void stop_copying();
  bool images_are_there(std::uint64_t set) const;
  bool not_now(const std::string& why, const std::string& kind);
  const AgentCore::Image& image_of(std::uint32_t rank) const;
  void note_newest();
  void report_written(const ImageSetWriter::Outcome& outcome);
  std::string why_no_room(std::uint64_t journal_bytes) const;
  std::string file_log_of(std::uint32_t rank) const;
  void ask_to_write(const std::vector<Descriptor>& files,
                    const std::vector<std::uint64_t>& file_log_bytes);
  void end_awaited_images();
  void look_at_set();
  void on_outcome();
  void give_up();
  // Reports a reason once, until there is another one or a set. The texts of one `kind` differ in
  // their figures only.
  void report_no_set(const std::string& why) { report_no_set(why, why); }
  void report_no_set(const std::string& why, const std::string& kind);

  Loop& loop_;
  const HostPlan& plan_;
  const JobSegment& segment_;
  AgentCore& core_;
  Processes& processes_;
  Connections& connections_;
  const RankInput& input_;
  const CheckpointOffers& checkpoints_;
  Reporter& reporter_;
  const std::function<pid_t()> relay_;
  const PartWritten part_written_;
  std::optional<ImageSetWriter> writer_;
  Loop::Watch watch_;
  Loop::Timer timer_;
  SetProgress progress_;
  ImageSet set_;                        // the set that is being written, or was
  std::optional<SegmentCopy> journal_;  // while it is being made
  std::vector<SegmentPiece> payload_;   // what is still to be copied
  Loop::Timer copy_timer_;
  ImageSet newest_;
  std::optional<std::uint64_t> unsettled_;      // this host's part of it is written
  std::uint64_t pause_ns_ = 0;                  // how long the ranks were stopped for it
  std::uint64_t cpu_before_ns_ = 0;             // of this process, before the set
  std::uint64_t writers_cpu_ns_ = 0;            // of the set
  std::vector<pid_t> stopped_;                  // processes that are stopped
  std::vector<AgentAction::EndImage> awaited_;  // images to end, once they have cloned themselves
  std::string reported_;                        // why there was no set
  std::uint64_t hurry_until_ns_ = 0;  // write_now(): the images are to be newer until then
  std::uint64_t newer_than_ = 0;      // ... than this set
  bool removed_ = false;              // all sets
  bool stopping_ = false;
};

}  // namespace rejoin::launcher
