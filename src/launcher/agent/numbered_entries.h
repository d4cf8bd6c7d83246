// The versions or sets in --checkpoint-dir: files or directories with numbers.
//
//     DIRECTORY/KIND-NUMBER.rejoin        whole: written and synced
//     DIRECTORY/KIND-NUMBER.rejoin.part   being written, or being removed
//
// An entry is written aside, as a part, and put in place when it is whole. It is removed by
// renaming it to a part first, so that a partly removed entry is not mistaken for a damaged one.
// Parts that a killed job has left are removed by the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/result.h"

namespace rejoin::launcher {

class NumberedEntries {
 public:
  // `kind`: "checkpoint" or "images". `digits`: numbers are written with so many at least.
  NumberedEntries(std::string directory, std::string kind, int digits)
      : directory_(std::move(directory)), kind_(std::move(kind)), digits_(digits) {}

  const std::string& directory() const { return directory_; }
  // The numbers of whole entries, the newest first.
  std::vector<std::uint64_t> numbers() const { return numbers(".rejoin"); }
  std::string path_of(std::uint64_t number) const;
  std::string part_of(std::uint64_t number) const { return path_of(number) + ".part"; }

  // Returns the newest whole entry that `read` accepts; nullopt: there is none. `read(number)`
  // returns a Result<T>. `notices`: its error for each entry that it does not accept.
  template <class T, class Read>
  std::optional<T> newest(Read read, std::vector<std::string>& notices) const {
    for (const std::uint64_t number : numbers()) {
      Result<T> entry = read(number);
      if (entry.ok()) return std::move(entry.value());
      notices.push_back(entry.error().text + "; looking for an older one");
    }
    return {};
  }

  // Renames the part and syncs the directory. REQUIRES that the part is synced. Returns false on
  // failure, with errno set.
  bool put_in_place(std::uint64_t number) const;
  // Makes a whole entry a part. Returns false on failure, with errno set.
  bool withdraw(std::uint64_t number) const;
  // Errors: it cannot be removed.
  std::optional<Error> remove(std::uint64_t number) const;
  // Removes all whole entries and all parts, and syncs the directory. Errors: one cannot be
  // removed.
  std::optional<Error> remove_all() const;
  void remove_part(std::uint64_t number) const;
  void remove_parts() const;
  // Removes whole entries up to number `newest`, except the newest `kept` of them.
  void remove_old(std::uint64_t newest, std::size_t kept) const;

 private:
  std::vector<std::uint64_t> numbers(const std::string& suffix) const;

  std::string directory_;
  std::string kind_;
  int digits_;
};

}  // namespace rejoin::launcher
