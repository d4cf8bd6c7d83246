// The agent's socket: the order in which it handles messages of a rank's processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "launcher/agent/connections.h"

namespace rejoin::launcher {
namespace {

using wire::MessageType;

const std::string kSecret(wire::kSecretBytes, 's');

struct Agent {
  Agent()
      : name("rejoin-connections-test-" + std::to_string(getpid())),
        loop(monotonic_ns()),
        listener(listen_at(name)),
        connections(loop, std::move(listener.value()), all_local(1), kSecret, calls()) {}

  Connections::Calls calls() {
    Connections::Calls c;
    c.asks = [this](std::uint32_t, pid_t, int connection, const wire::Message&) {
      heard += "asks ";
      asking = connection;
    };
    c.says = [this](std::uint32_t, const wire::Message& message) {
      heard += message.type == MessageType::kFinalized ? "finalized " : "else ";
    };
    return c;
  }

  // A process of rank 0 that has sent its first message.
  Descriptor connect() {
    Descriptor fd(wire::connect_to(name.data(), name.size()));
    EXPECT_TRUE(fd.open());
    send_message(fd.get(), MessageType::kRegister, 0, 0, kSecret);
    return fd;
  }

  std::string name;
  Loop loop;
  Result<Descriptor> listener;
  std::string heard;
  std::optional<int> asking;
  Connections connections;
};

TEST(Connections, MessagesOfARankAreReadBeforeAnotherProcessRegistersAsThatRank) {
  Agent agent;
  const Descriptor rank = agent.connect();
  agent.connections.read_all(0);
  ASSERT_TRUE(agent.asking);
  agent.connections.welcome(*agent.asking, 0, 0, rank.get());  // any descriptor will do
  send_message(rank.get(), MessageType::kFinalized, 0, 0);
  const Descriptor second = agent.connect();
  agent.connections.read_all(0);
  EXPECT_EQ(agent.heard, "asks finalized asks ");
}

}  // namespace
}  // namespace rejoin::launcher
