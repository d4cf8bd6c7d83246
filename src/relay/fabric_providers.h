// Which provider of libfabric a host has for the connections of relays.
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <optional>
#include <string>

namespace rejoin::relay {

struct FreeInfo {
  void operator()(fi_info* i) const { fi_freeinfo(i); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// The address of this end of a connection of TCP, as a number.
std::optional<std::string> address_of(int socket);
// The best provider that reaches what this address reaches, or null. The first time that it is
// asked for an address may take some seconds; what was found then is kept. For one thread.
Info find_info(const std::optional<std::string>& address);
// The best provider for any address, or null.
Info find_any_info();

}  // namespace rejoin::relay
