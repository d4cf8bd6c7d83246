// Messages of a clone that is not the rank to the agent, over the connection of its image.
#pragma once

#include <string.h>

#include <cstdint>

#include "wire/messages.h"
#include "wire/socket.h"

namespace rejoin::process_image {

inline void tell_agent(int socket, wire::MessageType type, std::uint32_t rank,
                       std::uint32_t incarnation, std::int32_t code, std::uint64_t value,
                       const char* text = "") {
  wire::Message m;
  wire::begin_message(m, type, rank);
  m.incarnation = incarnation;
  m.code = code;
  m.value = value;
  wire::set_text(m, text, strlen(text));
  wire::send_message(socket, m);
}

}  // namespace rejoin::process_image
