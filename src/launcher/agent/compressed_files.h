// Files of a written set that are compressed by zstd: --compress.
#pragma once

#include <string>

#include "launcher/base/file.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

inline constexpr char kCompressedSuffix[] = ".zst";

// Replaces the file `path` by a compressed one, `path`.zst, which is durable. Takes about 2 ms of
// processor time for each MiB. Returns false on failure, with errno set; then both may be there.
bool compress_file(const std::string& path);

// A file with plain contents: the one at a path, or a decompressed copy without a name.
class PlainFile {
 public:
  // The file `path`, or a copy of `path`.zst, which lies in the same directory. Errors: neither is
  // there; the compressed one is damaged; no space.
  static Result<PlainFile> open(const std::string& path);

  // Other processes of this user can open it while this object exists.
  const std::string& path() const { return path_; }

 private:
  PlainFile(std::string path, Descriptor copy) : path_(std::move(path)), copy_(std::move(copy)) {}

  std::string path_;
  Descriptor copy_;
};

}  // namespace rejoin::launcher
