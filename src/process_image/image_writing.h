// Writing the memory of this process to a file (written_image.h): in a clone that does nothing
// else.
#pragma once

#include <cstdint>

#include "process_image/written_image.h"

namespace rejoin::process_image {

// `head`: the caller sets rank, number, entry and stack; the rest is filled in. Makes system calls
// only. Returns 0 or an errno; EPERM: a mapping cannot be put in a file; EOPNOTSUPP: this process
// has randomised addresses.
int write_image(int file, ImageHead& head);

}  // namespace rejoin::process_image
