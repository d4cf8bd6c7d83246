// Writing the memory of this process to a file (written_image.h): in a clone that does nothing
// else.
#pragma once

#include <cstdint>

#include "process_image/written_image.h"

namespace rejoin::process_image {

// `head`: rank, number, entry and stack; the rest is filled in. System calls only. 0 or an errno;
// EPERM: a mapping can be put in no file; EOPNOTSUPP: it has its addresses from chance.
int write_image(int file, ImageHead& head);

}  // namespace rejoin::process_image
