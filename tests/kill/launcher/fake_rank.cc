// A rank without MPI, with which ftrun can be tested alone: it sends the messages of
// wire/messages.h and writes the words of its control block. Its arguments are its program:
//
//     [RANK/]WORD[:VALUE][@INCARNATION]  only in that rank, only in that incarnation
//
//     register init finalize   as the shim does; init registers too
//     op[:COUNT]               operations: live, or replayed if a former incarnation did them
//     print write err          VALUE to stdout with newline, to stdout, to stderr with newline
//     line cat                 a line (all) of standard input to standard output
//     kill exit                dies of signal VALUE; exits with VALUE
//     abort limit notice diverge foreign    sends it to the agent
//     stranger                 says foreign without the secret, and prints the answer
//     sleep                    VALUE milliseconds
//     ignore                   signal VALUE
//     hang                     for ever
//     wait                     for ever, as a rank waits for others; wait:N ends after N sleeps
//     child daemon             a child that sleeps; one in its own session, whose parent is gone
//     ghost                    registers over a connection of a child that has ended
//     second                   a child that tries to register as well, and prints what happened
//     env                      prints variable VALUE
//     places                   prints where stack, heap and environment lie
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "journal/layout.h"
#include "wire/socket.h"

namespace {

using namespace rejoin::journal;
using namespace rejoin::wire;

struct FakeRank {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  int socket = -1;
  std::byte* base = nullptr;
  std::uint64_t ordinal = 0;

  RankControl* control() const { return control_of(base, rank); }
};

FakeRank me;

[[noreturn]] void die_of_misuse(const std::string& why) {
  fprintf(stderr, "fake_rank: %s\n", why.c_str());
  _exit(99);
}

void tell(MessageType type, int code = 0, std::uint64_t value = 0, std::string_view text = "") {
  Message m;
  begin_message(m, type, me.rank);
  m.incarnation = me.incarnation;
  m.code = code;
  m.value = value;
  set_text(m, text.data(), text.size());
  send_message(me.socket, m);
}

void connect_over(int fd) {
  const char* name = getenv(kEnvSocket);
  if (name == nullptr) die_of_misuse("not under ftrun");
  const Address address(name, strlen(name));
  if (connect(fd, address.get(), address.bytes) != 0) die_of_misuse("no agent");
}

void connect_to_agent() {
  me.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  connect_over(me.socket);
}

// Registers the rank. False: it was refused; prints the reason.
bool register_here(const char* secret) {
  connect_to_agent();
  tell(MessageType::kRegister, 0, 0, secret);
  Message m;
  Descriptors segment;
  if (receive_message(me.socket, m, &segment) != Received::kMessage) die_of_misuse("no answer");
  if (m.type != MessageType::kWelcome) {
    printf("refused: %.*s\n", static_cast<int>(m.text_bytes), m.text);
    fflush(stdout);
    return false;
  }
  const int fd = segment.fd[0];
  struct stat info;
  fstat(fd, &info);
  me.incarnation = m.incarnation;
  void* p = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) die_of_misuse("no segment");
  me.base = static_cast<std::byte*>(p);
  close(fd);
  return true;
}

// Sleeps like ShmHost, but is never rung.
void sleep_often(int times) {
  auto& asleep = header_of(me.base)->asleep[me.rank];
  for (int i = 0; times == 0 || i < times; ++i) {
    rejoin::journal::put(asleep, 1);
    usleep(200'000);
    rejoin::journal::put(asleep, 0);
  }
}

void die_if_ordered(PointKind kind, Moment moment) {
  SegmentHeader* h = header_of(me.base);
  for (std::uint32_t i = 0; i < h->faults; ++i) {
    FaultPoint& k = h->fault[i];
    if (k.rank != me.rank || k.incarnation != me.incarnation) continue;
    if (k.kind != kind || k.moment != moment) continue;
    if (kind == PointKind::kOperation && k.ordinal != me.ordinal) continue;
    rejoin::journal::put(k.fired, 1);
    kill(getpid(), SIGKILL);
  }
}

// Executes an operation. The number of operations of all incarnations is stored in a word of the
// rank's that is not used otherwise here.
void operate() {
  RankControl* c = me.control();
  auto& done = region_of(me.base, me.rank)->observations.tail;
  ++me.ordinal;
  rejoin::journal::put(c->context, 0xab);
  rejoin::journal::put(c->sequence, me.ordinal - 1);
  rejoin::journal::put(c->ordinal, me.ordinal);
  die_if_ordered(PointKind::kOperation, Moment::kBefore);
  if (me.ordinal <= done.load()) {
    rejoin::journal::put(c->replayed, c->replayed.load() + 1);
    return;
  }
  if (c->live_since.load() == 0) {
    rejoin::journal::put(c->live_since, me.ordinal);
    if (me.incarnation > 0) tell(MessageType::kLive, 0, c->replayed.load());
  }
  rejoin::journal::put(c->phase, Phase::kInside);
  die_if_ordered(PointKind::kOperation, Moment::kInside);
  rejoin::journal::put(done, me.ordinal);
  rejoin::journal::put(c->phase, Phase::kOutside);
  die_if_ordered(PointKind::kOperation, Moment::kAfter);
}

void print(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) < 0) _exit(98);
}

void copy_input(bool one_line) {
  char c;
  while (read(0, &c, 1) == 1) {
    print(1, std::string(1, c));
    if (one_line && c == '\n') return;
  }
}

void start_child(bool daemon) {
  if (fork() != 0) {
    if (daemon) wait(nullptr);
    return;
  }
  if (daemon) {
    setsid();
    if (fork() != 0) _exit(0);
  }
  for (;;) pause();
}

void try_second() {
  fflush(stdout);
  if (fork() == 0) {
    if (register_here(getenv(kEnvSecret))) print(1, "welcome\n");
    _exit(0);
  }
  wait(nullptr);
}

// Sends the messages of a rank that was killed while it registered, so that the agent reads them
// when the next incarnation runs.
void register_as_ghost() {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fork() == 0) {
    connect_over(fd);
    _exit(0);
  }
  wait(nullptr);
  me.socket = fd;
  tell(MessageType::kRegister, 0, 0, getenv(kEnvSecret));
  Message m;
  if (recv(fd, &m, sizeof m, 0) > 0) print(1, "the agent answers a ghost\n");
}

bool do_mpi(const std::string& word, const std::string& value, int number) {
  if (word == "register") {
    register_here(value.empty() ? getenv(kEnvSecret) : value.c_str());
  } else if (word == "init") {
    if (me.base == nullptr && !register_here(getenv(kEnvSecret))) _exit(97);
    die_if_ordered(PointKind::kInit, Moment::kBefore);
    die_if_ordered(PointKind::kInit, Moment::kInside);
    rejoin::journal::put(me.control()->initialized, 1);
    tell(MessageType::kInitialized);
    die_if_ordered(PointKind::kInit, Moment::kAfter);
  } else if (word == "op") {
    for (int i = 0; i < (value.empty() ? 1 : number); ++i) operate();
  } else if (word == "wait") {
    sleep_often(number);
  } else if (word == "finalize") {
    die_if_ordered(PointKind::kFinalize, Moment::kBefore);
    rejoin::journal::put(me.control()->initialized, 2);
    tell(MessageType::kFinalized);
    die_if_ordered(PointKind::kFinalize, Moment::kAfter);
  } else if (word == "abort") {
    tell(MessageType::kAbort, number);
    for (;;) pause();
  } else if (word == "limit") {
    tell(MessageType::kLimit);
  } else if (word == "notice") {
    tell(MessageType::kNotice, 0, 0, value);
  } else if (word == "diverge") {
    tell(MessageType::kDiverged, 0, 0, value);
    for (;;) pause();
  } else if (word == "foreign") {
    connect_to_agent();
    tell(MessageType::kForeignAbi, 0, 0, getenv(kEnvSecret) + value);
  } else if (word == "stranger") {
    connect_to_agent();
    tell(MessageType::kForeignAbi, 0, 0, value);
    Message m;
    const bool answered = recv(me.socket, &m, sizeof m, 0) > 0;
    print(1, answered && m.type == MessageType::kRefused ? "refused\n" : "no answer\n");
  } else if (word == "ghost") {
    register_as_ghost();
  } else if (word == "second") {
    try_second();
  } else {
    return false;
  }
  return true;
}

void do_anything(const std::string& word, const std::string& value) {
  const int number = atoi(value.c_str());
  if (do_mpi(word, value, number)) return;
  if (word == "print") {
    print(1, value + "\n");
  } else if (word == "write") {
    print(1, value);
  } else if (word == "err") {
    print(2, value + "\n");
  } else if (word == "line" || word == "cat") {
    copy_input(word == "line");
  } else if (word == "kill") {
    signal(number, SIG_DFL);
    kill(getpid(), number);
  } else if (word == "exit") {
    _exit(number);
  } else if (word == "sleep") {
    usleep(static_cast<useconds_t>(number) * 1000);
  } else if (word == "ignore") {
    signal(number, SIG_IGN);
  } else if (word == "hang") {
    for (;;) pause();
  } else if (word == "child" || word == "daemon") {
    start_child(word == "daemon");
  } else if (word == "env") {
    const char* found = getenv(value.c_str());
    print(1, value + "=" + (found != nullptr ? found : "(none)") + "\n");
  } else if (word == "places") {
    int local = 0;
    char text[160];
    snprintf(text, sizeof text, "%p %p %p %p\n", static_cast<void*>(&local), malloc(1),
             static_cast<void*>(environ[0]), reinterpret_cast<void*>(&printf));
    print(1, text);
  } else {
    die_of_misuse("unknown word " + word);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* rank = getenv(kEnvRank)) me.rank = static_cast<std::uint32_t>(atoi(rank));
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i], value;
    if (const std::size_t slash = word.find('/'); slash != std::string::npos) {
      if (static_cast<std::uint32_t>(atoi(word.c_str())) != me.rank) continue;
      word = word.substr(slash + 1);
    }
    if (const std::size_t at = word.rfind('@'); at != std::string::npos) {
      if (static_cast<std::uint32_t>(atoi(word.c_str() + at + 1)) != me.incarnation) continue;
      word.resize(at);
    }
    if (const std::size_t colon = word.find(':'); colon != std::string::npos) {
      value = word.substr(colon + 1);
      word.resize(colon);
    }
    do_anything(word, value);
  }
  return 0;
}
