// What a rank keeps of its payload and its logs, and until when. PROTOCOL.md, "Truncation" and
// "When the journal is full".
#pragma once

#include <cstdint>

namespace rejoin::journal {

class Retention {
 public:
  enum class Kind : std::uint8_t {
    // Nothing is freed: until the first checkpoint, or for the whole job.
    kEverything,
    // Zones are closed at checkpoints, and are free behind the marks of versions.
    kForVersions,
    // Zones are closed when they are full, and are free behind the marks of images.
    kForImages,
    // The journal is full: results are kept until their readers have them, messages until they are
    // received. Nothing is kept for a replay.
    kForReaders,
  };

  Kind kind() const { return kind_; }
  // Whether payload lies in zones, which can be freed.
  bool uses_zones() const { return kind_ != Kind::kEverything; }
  bool is_for_images() const { return kind_ == Kind::kForImages; }
  // Whether the journal can still answer a replay: what happens is recorded, and nothing is freed
  // that an incarnation may ask for.
  bool serves_replays() const { return kind_ != Kind::kForReaders; }
  // Whether entries of logs and zones are reused as soon as they have been read, so that a writer
  // has to look at how far its readers are.
  bool reuses_what_was_read() const { return kind_ == Kind::kForReaders; }

  // Process images protect the job. REQUIRES kEverything.
  void follow_images() { kind_ = Kind::kForImages; }
  // The program makes checkpoints: nothing allocated so far is freed, and zones begin with
  // follow_versions(). REQUIRES serves_replays().
  void keep_everything() { kind_ = Kind::kEverything; }
  // A process may begin at a version from now on. Changes nothing of the two last kinds.
  void follow_versions() {
    if (kind_ == Kind::kEverything) kind_ = Kind::kForVersions;
  }
  // The journal is full. Never changes again.
  void give_up_replays() { kind_ = Kind::kForReaders; }

 private:
  Kind kind_ = Kind::kEverything;
};

}  // namespace rejoin::journal
