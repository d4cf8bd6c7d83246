// --output-filename: writes the output of each rank to its own files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/file.h"
#include "launcher/base/options.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

class RankFiles {
 public:
  // Creates or truncates DIRECTORY/rank.R/stdout and stderr for each rank. goes_on: the files stay
  // as they are, because a resumed job prints the rest. Errors: one cannot be written. Leaves no
  // file open: a job may have more ranks than there are descriptors.
  static std::optional<Error> prepare(const std::string& directory, const LocalRanks& ranks,
                                      bool goes_on);

  explicit RankFiles(std::string directory) : directory_(std::move(directory)) {}
  // Appends. Returns 0, or the errno of the first write that failed; writes nothing after that.
  int write(std::uint32_t rank, int stream, std::string_view bytes);

 private:
  std::string directory_;
  int error_ = 0;
};

}  // namespace rejoin::launcher
