// What a clone of this process would lack, or share with it where it must not.
#pragma once

#include <cstddef>

namespace rejoin::process_image {

// Whether this process can be frozen, but for its open files. False: `why` is the predicate of a
// sentence about it, "has 4 threads". System calls only; about 0.1 ms.
bool can_be_cloned(char* why, std::size_t size);

}  // namespace rejoin::process_image
