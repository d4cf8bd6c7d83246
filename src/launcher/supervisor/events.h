// The event log: one JSON line for each change of state (--events).
#pragma once

#include <string>

#include "launcher/base/record.h"

namespace rejoin::launcher {

// {"t":0.001234,"wall":1700000000.123456,"event":"death","rank":2,...}, without the line's end.
// `start_wall_s` is the wall clock at the job's start. Fields that do not apply are left out. Bytes
// that are no UTF-8 are replaced.
std::string to_json(const Record& record, double start_wall_s);

}  // namespace rejoin::launcher
