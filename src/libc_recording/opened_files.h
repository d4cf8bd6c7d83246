// Files that this rank has opened to write into what is there, since its images were made
// (wire/opened_files.h). Main thread only.
#pragma once

#include <cstdint>

namespace rejoin::libc_recording {

// This process has made, or is a clone of, the image with this number.
void opened_since_image(std::uint64_t number);
// The directory has another name now.
void move_opened_files(const char* directory);
// In a process that goes on from the written image with this number: what was opened since is as it
// was then, as far as that can be.
void roll_back_opened_files(std::uint64_t number);

}  // namespace rejoin::libc_recording
