#include "relay/fabric_providers.h"

#include <netdb.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <map>

namespace rejoin::relay {
namespace {

constexpr std::uint32_t kVersion = FI_VERSION(1, 14);
constexpr std::uint64_t kMrModes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

// The providers from which one is chosen: the first that this machine has. FI_PROVIDER restricts
// libfabric to some; then any other one is taken, too.
struct Candidate {
  const char* name;
  bool needs_source;  // there is one for each address of the machine
};
constexpr Candidate kCandidates[] = {
    {"efa", false}, {"cxi", false}, {"verbs;ofi_rxm", false}, {"net", true}, {"tcp;ofi_rxm", true}};

Info get_info(const char* provider, const char* source) {
  const Info hints(fi_allocinfo());
  if (!hints) return nullptr;
  hints->caps = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_REMOTE_READ;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = kMrModes;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (provider != nullptr) hints->fabric_attr->prov_name = strdup(provider);
  fi_info* found = nullptr;
  const int error =
      fi_getinfo(kVersion, source, nullptr, source != nullptr ? FI_SOURCE : 0, hints.get(), &found);
  return Info(error == 0 ? found : nullptr);
}

Info search(const std::optional<std::string>& address) {
  const char* const source = address ? address->c_str() : nullptr;
  for (const Candidate& c : kCandidates) {
    if (Info found = get_info(c.name, source)) return found;
    if (c.needs_source || source == nullptr) continue;
    if (Info found = get_info(c.name, nullptr)) return found;
  }
  if (getenv("FI_PROVIDER") == nullptr) return nullptr;
  if (Info found = get_info(nullptr, source)) return found;
  return get_info(nullptr, nullptr);
}

}  // namespace

Info find_info(const std::optional<std::string>& address) {
  static std::map<std::optional<std::string>, Info> found;
  Info& info = found[address];
  if (!info) info = search(address);
  return Info(info ? fi_dupinfo(info.get()) : nullptr);
}

Info find_any_info() {
  for (const Candidate& c : kCandidates) {
    if (Info found = get_info(c.name, nullptr)) return found;
  }
  return getenv("FI_PROVIDER") != nullptr ? get_info(nullptr, nullptr) : nullptr;
}

std::optional<std::string> address_of(int socket) {
  sockaddr_storage all = {};
  socklen_t bytes = sizeof all;
  auto* address = reinterpret_cast<sockaddr*>(&all);
  if (getsockname(socket, address, &bytes) != 0) return std::nullopt;
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&all);
  if (all.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    memcpy(&four.sin_addr, six->sin6_addr.s6_addr + 12, sizeof four.sin_addr);
    memcpy(&all, &four, bytes = sizeof four);
  }
  char text[NI_MAXHOST];
  if (getnameinfo(address, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  return text;
}

}  // namespace rejoin::relay
