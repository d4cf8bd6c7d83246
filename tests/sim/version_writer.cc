#include "version_writer.h"

#include <algorithm>

#include "journal/contexts.h"

namespace rejoin::sim {

void VersionWriter::begin(std::byte* base) {
  *this = VersionWriter();
  base_ = base;
}

const char* VersionWriter::look(std::uint64_t time, const Oracle& oracle) {
  journal::SegmentHeader* header = journal::header_of(base_);
  if (header->writes_versions == 0 || time < next_look_) return nullptr;
  next_look_ = time + kTurnsForARank;
  if (version_ == 0) {
    choose();
    return nullptr;
  }
  if (!is_whole(version_)) return "S3: a slot is used again while its version is written to a file";
  const journal::Version& slot = *journal::find_version(base_, rank_, version_);
  const std::byte* global = rank_ == 0 ? base_ + slot.global.at : nullptr;
  if (!oracle.gave(rank_, version_, global, slot.global.bytes, base_ + slot.local.at,
                   slot.local.bytes)) {
    return "S3: other models are written to a file than were given for the version";
  }
  if (++rank_ < header->ranks) return nullptr;
  ++written_;
  version_ = 0;
  header->version_in_file.store(journal::kAgentStores, journal::Step::kNotice, 0);
  return nullptr;
}

void VersionWriter::choose() {
  journal::SegmentHeader* header = journal::header_of(base_);
  std::uint64_t newest = 0;
  for (const journal::Version& v : journal::region_of(base_, 0)->version) {
    const std::uint64_t number = v.marks.number.load();
    if (number > newest && is_whole(number)) newest = number;
  }
  for (std::uint32_t r = 0; r < header->ranks && newest != 0; ++r) {
    if (journal::find_version(base_, r, newest)->fault != journal::VersionFault::kNone) newest = 0;
  }
  version_ = newest;
  rank_ = 0;
  header->version_in_file.store(journal::kAgentStores, journal::Step::kNotice, newest);
}

bool VersionWriter::is_whole(std::uint64_t version) const {
  for (std::uint32_t r = 0; r < journal::header_of(base_)->ranks; ++r) {
    if (journal::control_of(base_, r)->prepared.load() < version) return false;
    if (journal::find_version(base_, r, version) == nullptr) return false;
  }
  return true;
}

}  // namespace rejoin::sim
