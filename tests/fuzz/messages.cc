// Messages of a process to the agent's socket, and the handling of their texts. An input is a
// sequence of datagrams, each after its length in two bytes.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "fuzz.h"
#include "launcher/agent/agent_socket.h"
#include "launcher/symbolizer/symbolizer.h"

namespace {

using namespace rejoin;
using launcher::Descriptor;

struct Ends {
  Ends() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    rank = Descriptor(ends[0]);
    agent = Descriptor(ends[1]);
  }
  Descriptor rank, agent;
};

// A call site in a module of arbitrary contents.
std::string site(std::uint32_t rank, std::uint32_t module, std::uint64_t place) {
  journal::ModuleEntry entry;
  std::memset(&entry, static_cast<int>(rank), sizeof entry);
  if (module % 2 == 0) entry.build_id_bytes = journal::kNamedSite;
  return launcher::rough_site(entry, place);
}

void read_message(const wire::Message& message) {
  REQUIRE(message.text_bytes <= wire::kMaxText);
  const std::string text = launcher::text_of(message);
  const std::string expanded = launcher::expand_sites(text, site);
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  REQUIRE(std::none_of(expanded.begin(), expanded.end(), control));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Ends ends;
  for (int sent = 0; size >= 2 && sent < 16; ++sent) {
    const std::size_t bytes = std::min<std::size_t>(data[0] | data[1] << 8, size - 2);
    // An empty datagram would mean the end of the connection.
    if (bytes > 0) REQUIRE(send(ends.rank.get(), data + 2, bytes, MSG_DONTWAIT) > 0);
    wire::Message message;
    if (wire::receive_message(ends.agent.get(), message, nullptr, MSG_DONTWAIT) ==
        wire::Received::kMessage) {
      read_message(message);
    }
    data += 2 + bytes;
    size -= 2 + bytes;
  }
  REQUIRE(fcntl(ends.agent.get(), F_GETFD) >= 0);
  return 0;
}

namespace rejoin::fuzz {
namespace {

std::string datagram(wire::MessageType type, std::string_view text) {
  const Ends ends;
  launcher::send_message(ends.rank.get(), type, 1, 0, text);
  char bytes[sizeof(wire::Message)];
  const ssize_t got = recv(ends.agent.get(), bytes, sizeof bytes, 0);
  REQUIRE(got > 0);
  std::string framed = {static_cast<char>(got & 0xff), static_cast<char>(got >> 8)};
  return framed.append(bytes, static_cast<std::size_t>(got));
}

}  // namespace

std::vector<std::string> seeds() {
  using wire::MessageType;
  return {datagram(MessageType::kRegister, "0123456789abcdef") + datagram(MessageType::kLive, "") +
              datagram(MessageType::kFinalized, ""),
          datagram(MessageType::kAbort, "MPI_Allreduce at {1:0:1a2b} and {2:1:ff}: {x}"),
          datagram(MessageType::kForeignAbi, "libmpich.so.12"),
          datagram(MessageType::kLog, std::string(wire::kMaxText, '{'))};
}

std::vector<std::string> words() {
  return {"{0:0:0}", "{4294967295:1:ffffffffffffffff}", "{", "}"};
}

}  // namespace rejoin::fuzz
