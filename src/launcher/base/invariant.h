// What holds unless Rejoin itself is wrong; checked in every build.
#pragma once

namespace rejoin::launcher {

// Returns if `holds`. Else prints what does not hold, and aborts: nothing that is decided from
// there on could be trusted. `what`: a sentence without its end.
void invariant(bool holds, const char* what);

}  // namespace rejoin::launcher
