// Messages of ranks to their agent, and ends of their processes, in any order.
//
// An input is a list of steps. Each is a byte, followed by its arguments (take_step).
#include "agent_host.h"

namespace {

using namespace rejoin;
using fuzz::Host;
using fuzz::kRanks;
using fuzz::kSecret;
using launcher::Cause;
using wire::MessageType;

constexpr int kMostSteps = 150;

enum class Step : std::uint8_t {
  kConnect,   // rank and kind of process that connects
  kMessage,   // client, type, rank, code, value, flags with incarnation, length of the text, text
  kDatagram,  // client, length, bytes
  kHangUp,    // client
  kPrint,     // rank and stream, length, bytes
  kClose,     // rank whose output is closed
  kProgramEnds,  // rank, cause
  kChildEnds,    // rank, cause
  kTreeGone,     // rank
  kSignal,       // a signal to ftrun
  kSpawnFails,   // the next spawn fails
  kWant,         // a round of snapshots is requested
  kEndImages,    // all images are ended
  kForks,        // rank whose image has cloned itself, or could not
  kImageEnds,    // rank; its kept image ends, or one that has not registered
  kCount,
};

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::uint32_t below(std::uint32_t n) { return byte() % n; }
  std::string_view bytes(std::size_t n) {
    n = std::min(n, size_);
    const std::string_view found(reinterpret_cast<const char*>(data_), n);
    data_ += n;
    size_ -= n;
    return found;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

Cause cause(Input& input) {
  Cause cause;
  cause.kind = static_cast<Cause::Kind>(input.below(3));
  cause.value = input.byte();
  return cause;
}

void say(Input& input, Host& host) {
  wire::Message m = {};
  const std::uint32_t client = input.byte();
  m.type = static_cast<MessageType>(input.byte());
  m.rank = input.byte();
  m.code = static_cast<std::int8_t>(input.byte());
  m.value = input.byte();
  const std::uint8_t flags = input.byte();
  if ((flags & 1) != 0) m.value <<= 56;
  m.incarnation = flags >> 2 & 7;
  std::string text = (flags & 2) == 0 ? std::string(kSecret) : "";
  text += input.bytes(input.byte());
  for (int times = flags >> 6; times > 0; --times) text += text;
  m.text_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), wire::kMaxText));
  std::memcpy(m.text, text.data(), m.text_bytes);
  host.say(client, &m, wire::kMessageHeadBytes + m.text_bytes);
}

void take_step(Input& input, Host& host) {
  const auto step = static_cast<Step>(input.below(static_cast<std::uint32_t>(Step::kCount)));
  if (step == Step::kMessage) return say(input, host);
  if (step == Step::kSignal) return host.signal_ftrun();
  if (step == Step::kSpawnFails) return host.next_spawn_fails();
  if (step == Step::kWant) return host.want();
  if (step == Step::kEndImages) return host.end_images();
  const std::uint32_t whom = input.byte();
  switch (step) {
    case Step::kConnect:
      return host.connect(whom % kRanks, static_cast<Host::Who>(whom / kRanks % 4));
    case Step::kDatagram: {
      const std::string_view bytes = input.bytes(input.byte());
      // An empty datagram would mean the end of the connection.
      return bytes.empty() ? host.hang_up(whom) : host.say(whom, bytes.data(), bytes.size());
    }
    case Step::kHangUp:
      return host.hang_up(whom);
    case Step::kPrint:
      return host.print(whom % kRanks, whom / kRanks % 2, input.bytes(input.byte()));
    case Step::kClose:
      return host.hang_up_output(whom % kRanks);
    case Step::kProgramEnds:
      return host.program_ends(whom % kRanks, cause(input));
    case Step::kChildEnds:
      return host.child_ends(whom % kRanks, cause(input));
    case Step::kTreeGone:
      return host.tree_gone(whom % kRanks);
    case Step::kForks:
      return host.forks(whom % kRanks, whom / kRanks % 2 == 0);
    case Step::kImageEnds:
      return host.image_ends(whom % kRanks, whom / kRanks % 2 == 0);
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  signal(SIGPIPE, SIG_IGN);  // the agent may have closed a pipe that a rank prints to
  Input input(data, size);
  int steps = 0;
  Host* running = nullptr;
  Host host([&] {
    if (input.empty() || ++steps > kMostSteps) return false;
    take_step(input, *running);
    return true;
  });
  running = &host;
  host.run();
  return 0;
}

namespace rejoin::fuzz {
namespace {

std::string steps(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

std::string step(Step s, std::initializer_list<int> bytes) {
  return static_cast<char>(s) + steps(bytes);
}

// `bytes`: the text after the secret, unless `flags` omits the secret.
std::string message(int client, MessageType type, int rank, int flags = 2,
                    const std::string& bytes = "", int value = 2) {
  const int length = static_cast<int>(bytes.size());
  return step(Step::kMessage, {client, static_cast<int>(type), rank, 0, value, flags, length}) +
         bytes;
}

// An image of rank 1 registers with the first requested number, from a process of its own.
std::string image(int client, int number) {
  return step(Step::kWant, {}) + step(Step::kConnect, {1 + 2 * static_cast<int>(kRanks)}) +
         message(client, MessageType::kImage, 1, 0, "", number);
}

// Rank 1 goes on from this image in its next incarnation.
std::string woken(int client, int incarnation, const std::string& why = "") {
  return step(Step::kConnect, {1 + 3 * static_cast<int>(kRanks)}) +
         message(client, MessageType::kWoken, 1, incarnation << 2, why);
}

// Three ranks register: children of the agent, or processes below them.
std::string registered(int behind) {
  std::string all;
  for (int r = 0; r < static_cast<int>(kRanks); ++r) {
    all += step(Step::kConnect, {r + behind * static_cast<int>(kRanks)}) +
           message(r, MessageType::kRegister, r, 0);
  }
  for (int r = 0; r < static_cast<int>(kRanks); ++r)
    all += message(r, MessageType::kInitialized, r);
  return all;
}

std::string finished(bool behind) {
  std::string all;
  for (int r = 0; r < static_cast<int>(kRanks); ++r) {
    all += message(r, MessageType::kFinalized, r);
    if (behind) all += step(Step::kProgramEnds, {r, 0, 0});
    all += step(Step::kChildEnds, {r, 0, 0}) + step(Step::kClose, {r});
  }
  return all;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string dies = step(Step::kChildEnds, {1, 1, SIGKILL}) + step(Step::kTreeGone, {1});
  const std::string back = step(Step::kConnect, {1}) + message(3, MessageType::kRegister, 1, 0) +
                           message(3, MessageType::kInitialized, 1) +
                           message(3, MessageType::kLive, 1);
  const std::string forks = step(Step::kForks, {1});
  const std::string prints = step(Step::kPrint, {1, 5}) + "one\nt" + step(Step::kPrint, {4, 2}) +
                             "e\n" + message(1, MessageType::kMark, 1);
  return {
      registered(0) + prints + finished(false),
      registered(1) + prints + finished(true),
      registered(0) + prints + dies + back + prints + finished(false),
      registered(1) + step(Step::kProgramEnds, {1, 1, SIGKILL}) + dies + back,
      registered(0) + message(0, MessageType::kAbort, 0, 2, "at {0:0:1a2b} and {2:1:ff}"),
      registered(0) + message(0, MessageType::kLog, 0, 0xc2, "{0:0:1}") +
          message(1, MessageType::kNotice, 1, 2, "{4294967295:1:2}") +
          message(2, MessageType::kDiverged, 2) + message(2, MessageType::kLimit, 2) + dies,
      step(Step::kConnect, {0}) + message(0, MessageType::kForeignAbi, 0, 0, "libmpich.so.12") +
          step(Step::kSpawnFails, {}) + dies + step(Step::kSignal, {}),
      step(Step::kConnect, {0}) + step(Step::kDatagram, {0, 3}) + "abc" + step(Step::kHangUp, {0}),
      registered(0) + image(3, 1) + prints + dies + forks + woken(4, 1) +
          message(4, MessageType::kInitialized, 1) + prints + finished(false),
      registered(0) + image(3, 1) + image(4, 2) + dies + woken(5, 1) + forks + dies + woken(6, 2) +
          woken(7, 2) + woken(8, 1) + step(Step::kEndImages, {}),
      registered(0) + image(3, 1) + step(Step::kImageEnds, {1}) + image(4, 2) + dies +
          step(Step::kImageEnds, {1}) + forks,
      registered(0) + step(Step::kWant, {}) + step(Step::kImageEnds, {4}) + image(3, 2) + dies +
          step(Step::kForks, {4}),
      registered(1) + image(3, 1) + dies + woken(4, 1, "why"),
  };
}

std::vector<std::string> words() {
  return {"{0:0:0}",
          "{3:1:ffffffffffffffff}",
          step(Step::kConnect, {0}),
          step(Step::kConnect, {4}),
          message(0, MessageType::kRegister, 0, 0),
          message(1, MessageType::kRegister, 0, 0),
          message(0, MessageType::kInitialized, 0),
          message(0, MessageType::kFinalized, 0),
          message(0, MessageType::kMark, 0, 1),
          message(0, MessageType::kCommitted, 0),
          step(Step::kChildEnds, {0, 0, 0}),
          step(Step::kChildEnds, {1, 1, SIGKILL}),
          step(Step::kProgramEnds, {0, 0, 0}),
          step(Step::kTreeGone, {0}),
          step(Step::kWant, {}),
          step(Step::kForks, {0}),
          step(Step::kImageEnds, {0}),
          image(3, 1),
          woken(4, 1),
          step(Step::kClose, {0})};
}

}  // namespace rejoin::fuzz
