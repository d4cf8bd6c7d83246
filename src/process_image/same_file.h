// Which descriptors of this process are one open file.
#pragma once

#include <optional>

namespace rejoin::process_image {

// Returns whether two descriptors of this process are duplicates of each other, so that they share
// an offset; nothing: that cannot be known. Both must be open.
//
// The kernel knows it (kcmp), but seccomp profiles of containers often forbid the question. Then
// the first descriptor's open file gets a mark that the second one's has only if it is the same:
// the signal of F_SETSIG, which means nothing as long as the file sends no signals (O_ASYNC). The
// mark is there for a moment; the former value comes back. Only one process at a time should ask
// about an open file; two would be noticed, unless they chose the same marks.
std::optional<bool> are_one_file(int a, int b);

}  // namespace rejoin::process_image
