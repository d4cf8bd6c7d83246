// Lines that a rank sends to the user.
#pragma once

#include <cstdint>
#include <cstring>

#include "journal/host.h"
#include "recovery/hash.h"
#include "wire/messages.h"

namespace rejoin::recovery {

// Sends a notice about this rank.
template <journal::Host H>
void send_notice(H& host, const char* text) {
  host.tell(wire::MessageType::kNotice, 0, 0, text, std::strlen(text));
}

// Sends a notice about the whole job. If several ranks send one about `subject`, the user sees only
// the first.
template <journal::Host H>
void send_notice_once(H& host, const char* subject, const char* text) {
  const std::uint64_t number = std::uint64_t{1} << 32 | hash_bytes(subject, std::strlen(subject));
  host.tell(wire::MessageType::kNotice, 0, number, text, std::strlen(text));
}

}  // namespace rejoin::recovery
