// The writer of versions to files, as far as ranks see it: it reads the models of a committed
// version from its slots, slowly, while ranks make other versions.
#pragma once

#include <cstdint>

#include "journal/layout.h"
#include "oracle.h"

namespace rejoin::sim {

class VersionWriter {
 public:
  void begin(std::byte* base);

  // Called between two turns of ranks, now and then. Returns why the models that it has read are
  // wrong, or null.
  const char* look(std::uint64_t time, const Oracle& oracle);
  std::uint64_t written() const { return written_; }

 private:
  // Chooses the newest version that exists.
  void choose();
  bool is_whole(std::uint64_t version) const;

  // Long enough for ranks to make more versions than there are slots.
  static constexpr std::uint64_t kTurnsForARank = 240;

  std::byte* base_ = nullptr;
  std::uint64_t version_ = 0;  // the version that is being read; 0: none
  std::uint32_t rank_ = 0;     // the rank whose models are read next
  std::uint64_t next_look_ = 0;
  std::uint64_t written_ = 0;  // number of versions written
};

}  // namespace rejoin::sim
