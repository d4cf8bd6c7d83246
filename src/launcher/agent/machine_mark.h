// What a written image needs of the machine that it is restored on.
#pragma once

#include <string>
#include <vector>

namespace rejoin::launcher {

struct MachineMark {
  std::string vdso;                       // what the kernel maps into each process, and how; a hash
  std::vector<std::string> cpu_features;  // that programs can use
};

// Of this machine.
MachineMark machine_mark();

// What `here` lacks of what `then` had; empty: nothing.
std::string lacking(const MachineMark& then, const MachineMark& here);

}  // namespace rejoin::launcher
