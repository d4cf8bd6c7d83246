#include "launcher/base/invariant.h"

#include <stdio.h>
#include <stdlib.h>

namespace rejoin::launcher {

void invariant(bool holds, const char* what) {
  if (holds) [[likely]]
    return;
  fprintf(stderr, "rejoin: %s: this is a defect of Rejoin\n", what);
  abort();
}

}  // namespace rejoin::launcher
