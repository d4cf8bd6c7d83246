#include "probes.h"

namespace rejoin::sim {

const char* name_of(Probe p) {
  static constexpr const char* kNames[] = {
      "answered by its own record",
      "record adopted at entry",
      "record adopted in the wait",
      "leader's record adopted",
      "attempt begun again",
      "operand overwritten while read",
      "attempt given up midway through an extent",
      "head start in a broadcast",
      "head start lost",
      "record of an exited rank adopted",
      "message sent again and recognised",
      "message received again",
      "slept",
      "rung",
      "woken for nothing",
      "woken from an image",
      "all went back to a set",
      "kept image died",
      "image died that was not kept",
      "image died while it was woken",
      "image made after one had died",
      "image made after one had died unregistered",
      "job of images by the first image",
      "job of images by its first checkpoint",
      "job of versions by its first checkpoint",
      "version written to a file",
      "rank lost with its image",
      "replacement died",
      "died while replaying",
      "died asleep",
      "two dead together",
      "all dead together",
      "unpublished bytes left",
      "mismatch",
      "mismatch replayed",
      "told at a checkpoint",
      "version loaded",
      "checkpoint prepared by an earlier incarnation",
      "bootstrap replay",
      "died after loading a version",
      "died between registration and welcome",
      "registration of a dead process read late",
      "second process of a rank refused",
      "replay diverged",
      "replay diverged and stood still",
      "full journal ended the job",
  };
  static_assert(sizeof kNames / sizeof *kNames == kProbeCount);
  return kNames[static_cast<unsigned>(p)];
}

void Probes::add(const Probes& other) {
  for (unsigned i = 0; i < kProbeCount; ++i) count[i] += other.count[i];
  for (unsigned i = 0; i < engine::kPoints; ++i) {
    reached[i] += other.reached[i];
    killed[i] += other.killed[i];
  }
}

}  // namespace rejoin::sim
