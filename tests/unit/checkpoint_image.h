// Checkpoint files as --checkpoint-dir writes them, and modified ones.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

#include "launcher/agent/checkpoint_files.h"

namespace rejoin::test {

// Corrects the checksums of a modified file, as far as its sizes are valid: those of the heads, and
// those of the models.
inline void seal(std::string& file, bool models) {
  using launcher::CheckpointHead;
  using launcher::Checksum;
  CheckpointHead head;
  if (file.size() < sizeof head) return;
  std::memcpy(&head, file.data(), sizeof head);
  std::size_t heads_bytes = sizeof head + head.ranks * sizeof(Checksum);
  if (heads_bytes > file.size() || head.texts_bytes > file.size() - heads_bytes) return;
  heads_bytes += head.texts_bytes;
  std::size_t at = heads_bytes;
  const auto sum = [&file, &at](std::uint64_t bytes, std::uint64_t& of) {
    if (bytes > file.size() - at) return;
    of = XXH3_64bits(file.data() + at, bytes);
    at += bytes;
  };
  if (models) sum(head.global.bytes, head.global.sum);
  for (std::uint32_t r = 0; models && r < head.ranks; ++r) {
    char* place = file.data() + sizeof head + r * sizeof(Checksum);
    Checksum local;
    std::memcpy(&local, place, sizeof local);
    sum(local.bytes, local.sum);
    std::memcpy(place, &local, sizeof local);
  }
  std::memcpy(file.data(), &head, sizeof head);
  std::string heads = file.substr(0, heads_bytes);
  heads.erase(offsetof(CheckpointHead, sum), sizeof head.sum);
  head.sum = XXH3_64bits(heads.data(), heads.size());
  std::memcpy(file.data(), &head, sizeof head);
}

// The default job that writes the files.
inline launcher::CheckpointOwner checkpoint_owner(std::uint32_t ranks) {
  return {"program", "build-id 0123", {"--size", "", "7"}, ranks};
}

inline std::string checkpoint_image(const launcher::CheckpointOwner& owner, std::uint64_t version,
                                    std::uint32_t format = 2) {
  const std::uint32_t ranks = owner.ranks;
  std::string texts = owner.program + '\0' + owner.build + '\0';
  for (const std::string& argument : owner.arguments) texts += argument + '\0';
  launcher::CheckpointHead head = {};
  std::memcpy(head.magic, "REJOINCK", sizeof head.magic);
  head.format = format;
  head.ranks = ranks;
  head.version = version;
  head.global.bytes = 20;
  head.texts_bytes = texts.size();
  std::string file(reinterpret_cast<const char*>(&head), sizeof head);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const launcher::Checksum local = {8 * r, 0};
    file.append(reinterpret_cast<const char*>(&local), sizeof local);
  }
  file += texts;
  file.append(head.global.bytes + 8 * ranks * (ranks - 1) / 2, 'm');
  seal(file, true);
  return file;
}
inline std::string checkpoint_image(std::uint32_t ranks, std::uint64_t version) {
  return checkpoint_image(checkpoint_owner(ranks), version);
}

}  // namespace rejoin::test
