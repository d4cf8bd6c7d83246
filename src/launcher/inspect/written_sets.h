// `ftrun inspect DIRECTORY`: the sets of written images that --checkpoint-dir has made.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// Writes a description of each set to `out`: text or, with `json`, one JSON object a line. The
// files are not trusted. Errors: there is no set, or no complete one. Example:
//
//     saved/images-7.rejoin: set 7, 2 ranks, 12 MiB, cut at 2026-11-24 03:15:00, 42 s ago
//         program   a.out 8000, build 0123456789abcdef
//         image-0   5.8 MiB, checksum right
//         needs     this machine's kernel and processor features, 6 files that are mapped
//         --resume  can go on from it here
std::optional<Error> print_image_sets(const std::string& directory, bool json,
                                      const std::function<void(const std::string&)>& out);

}  // namespace rejoin::launcher
