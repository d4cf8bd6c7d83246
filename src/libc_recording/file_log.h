// What this rank does to files that a job which goes on from a written image has to undo
// (wire/file_log.h). Main thread only.
#pragma once

#include <cstdint>

namespace rejoin::libc_recording {

// This process has made, or is a clone of, the image with this number.
void log_files_since_image(std::uint64_t number);
// The directory has another name now.
void move_file_log(const char* directory);
// Called in a process that goes on from the written image with this number: cuts files that were
// opened since to what they were then. ftrun has put names back already.
void roll_back_files(std::uint64_t number);

}  // namespace rejoin::libc_recording
