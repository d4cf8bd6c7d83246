// Logs the changes of files by this rank that a job which goes on from a written image has to undo
// (wire/file_log.h). Main thread only.
#pragma once

#include <cstdint>

namespace rejoin::libc_recording {

// Begins the log since the image with this number, which this process has made or is a clone of.
void log_files_since_image(std::uint64_t number);
// Sets another directory for the logs.
void move_file_log(const char* directory);
// Called in a process that goes on from the written image with this number: truncates files that
// were opened since to their size then. ftrun has restored names already.
void roll_back_files(std::uint64_t number);

}  // namespace rejoin::libc_recording
