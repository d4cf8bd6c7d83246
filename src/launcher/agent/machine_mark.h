// Properties of a machine that a written image depends on.
#pragma once

#include <string>
#include <vector>

namespace rejoin::launcher {

struct MachineMark {
  std::string vdso;                       // hash of what the kernel maps into each process
  std::vector<std::string> cpu_features;  // that programs can use
};

// Returns the mark of this machine.
MachineMark machine_mark();

// Names what `then` had and `here` lacks; empty: nothing.
std::string lacking(const MachineMark& then, const MachineMark& here);

}  // namespace rejoin::launcher
