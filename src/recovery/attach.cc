#include "recovery/attach.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>
#include <optional>

#include "engine/transport/shm/memory.h"
#include "journal/layout.h"
#include "journal/system_call.h"
#include "journal/valgrind.h"
#include "relay/carrier.h"
#include "wire/open_descriptors.h"
#include "wire/socket.h"

namespace rejoin::recovery {
namespace {

using wire::Message;
using wire::MessageType;

using journal::kSegmentAddress;
// As far from a program's own mappings.
constexpr std::uintptr_t kArenaAddress = 0x1f0000000000;
constexpr std::size_t kArenaBytes = std::size_t{16} << 30;  // of addresses
constexpr int kFirstDescriptor = 900;                       // ours lie above what programs count on

struct Attachment {
  engine::ShmHost host;
  journal::Arena arena;
  std::optional<relay::RankCarrier> carrier;
  Rank rank;
  Attachment(std::byte* base, std::uint32_t r, int socket, std::byte* memory)
      : host(base, r, socket), arena(memory, kArenaBytes), rank(host, arena) {
    const bool at_home = reinterpret_cast<std::uintptr_t>(base) == kSegmentAddress;
    if (journal::header_of(base)->has_relay != 0 && at_home) {
      host.set_carrier(&carrier.emplace(base, r, arena));
    }
  }
};

// The agent's address, for this process and its images: the program may change its environment.
struct {
  char name[sizeof(sockaddr_un::sun_path)];
  char secret[wire::kSecretBytes + 1];
} agent_address;

constexpr int kMostInherited = 64;
struct Inherited {
  int fd;
  dev_t device;
  ino_t file;
} inherited[kMostInherited];
int inherited_count = 0;

// The rank's standard input, output and error, as the agent made them.
struct {
  dev_t device;
  ino_t file;
} given[3];

alignas(Attachment) std::byte attachment_memory[sizeof(Attachment)];
Attachment* attachment = nullptr;

// The ranges that are hidden from memcheck.
struct {
  const std::byte* records;
  std::size_t record_bytes;
  std::byte* arena;
} hidden;

void* map_at(std::uintptr_t address, std::size_t bytes, int flags, int fd) {
  void* hint = reinterpret_cast<void*>(address);
  void* p =
      mmap(hint, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
  if (p == MAP_FAILED)
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
  return p;
}

int move_high(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high < 0) return fd;  // a low limit on descriptors: ours stays where it is
  close(fd);
  return high;
}

// Sends the first datagram of a connection: the job's secret, then `text`.
bool send_first(int fd, MessageType type, std::uint32_t rank, const char* text,
                std::uint64_t value = 0, std::uint32_t incarnation = 0) {
  Message m;
  wire::begin_message(m, type, rank);
  m.value = value;
  m.incarnation = incarnation;
  m.text_bytes = static_cast<std::uint32_t>(
      snprintf(m.text, sizeof m.text, "%s%s", agent_address.secret, text));
  m.text_bytes = m.text_bytes < wire::kMaxText ? m.text_bytes : wire::kMaxText - 1;
  return wire::send_message(fd, m);
}

// Waits for the agent's answer. Returns the segment's descriptor, or -1.
int await_welcome(int socket, Message* m) {
  wire::Descriptors segment;
  if (wire::receive_message(socket, *m, &segment) != wire::Received::kMessage) {
    m->type = MessageType::kRefused;
    m->text_bytes = 0;
    return -1;
  }
  return m->type == MessageType::kWelcome ? segment.fd[0] : -1;
}

std::uint64_t size_of(int fd) {
  journal::SegmentHeader* h = static_cast<journal::SegmentHeader*>(
      mmap(nullptr, sizeof(journal::SegmentHeader), PROT_READ, MAP_SHARED, fd, 0));
  if (h == MAP_FAILED) return 0;
  const std::uint64_t bytes = h->magic == journal::kSegmentMagic ? h->segment_bytes : 0;
  munmap(h, sizeof *h);
  return bytes;
}

// Stores the agent's address. Null: there is no agent.
const char* find_agent() {
  const char* name = getenv(wire::kEnvSocket);
  const char* secret = getenv(wire::kEnvSecret);
  if (name == nullptr) return nullptr;
  snprintf(agent_address.name, sizeof agent_address.name, "%s", name);
  snprintf(agent_address.secret, sizeof agent_address.secret, "%s", secret ? secret : "");
  return agent_address.name;
}

// The segment belongs to the process that is the rank, not to its forked children.
void advise(void* base, std::uint64_t bytes) {
  const auto address = reinterpret_cast<long>(base), length = static_cast<long>(bytes);
  journal::system_call(SYS_madvise, address, length, MADV_DONTFORK);
  journal::system_call(SYS_madvise, address, length, MADV_DONTDUMP);
  // The part in front contains the futexes, whose accesses memcheck reports in any case.
  const std::uint64_t front = journal::header_of(static_cast<std::byte*>(base))->first_region;
  hidden.records = static_cast<std::byte*>(base) + front;
  hidden.record_bytes = bytes - front;
  journal::hide_from_memcheck(hidden.records, hidden.record_bytes);
}

bool become(int segment, std::uint64_t bytes, std::uint32_t rank, int socket, bool format) {
  void* base = map_at(kSegmentAddress, bytes, MAP_SHARED, segment);
  void* memory = map_at(kArenaAddress, kArenaBytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (base == MAP_FAILED || memory == MAP_FAILED) return false;
  if (format) journal::format_segment(static_cast<std::byte*>(base), 1, 0, 0, 1);
  advise(base, bytes);
  madvise(memory, kArenaBytes, MADV_DONTDUMP);
  journal::hide_from_memcheck(memory, kArenaBytes);
  hidden.arena = static_cast<std::byte*>(memory);
  engine::advise_segment(static_cast<std::byte*>(base), rank);
  engine::prefault_payload(static_cast<std::byte*>(base), rank);
  attachment = new (attachment_memory)
      Attachment(static_cast<std::byte*>(base), rank, socket, static_cast<std::byte*>(memory));
  return true;
}

// Memcheck warns about ranges whose reports are still disabled at exit. This destructor also runs
// in forked children, which have not mapped the segment.
[[gnu::destructor]] void end_hiding() {
  if (attachment == nullptr || !journal::runs_under_valgrind()) return;
  journal::report_to_memcheck(hidden.records, hidden.record_bytes);
  journal::report_to_memcheck(hidden.arena, kArenaBytes);
  // An MPI attribute in the arena may hold the only pointer to a block of the program. Only
  // resident pages are scanned, because most of the arena was never written to.
  constexpr std::size_t kPage = 4096, kAtOnce = 1024;
  unsigned char resident[kAtOnce];
  std::byte* const end = hidden.arena + attachment->arena.used_bytes();
  for (std::byte* at = hidden.arena; at < end; at += kAtOnce * kPage) {
    if (mincore(at, kAtOnce * kPage, resident) != 0) return;
    for (std::size_t page = 0; page < kAtOnce; ++page) {
      if ((resident[page] & 1) != 0) journal::show_to_memcheck(at + page * kPage, kPage);
    }
  }
}

// Variables in which other launchers tell a process the number of processes.
constexpr struct {
  const char* variable;
  const char* launcher;
} kOtherLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
    {"PMI_SIZE", "mpiexec"},
    {"SLURM_STEP_NUM_TASKS", "srun"},
};

// Ranks that another launcher has started would be as many worlds of one.
bool is_started_by_another(char* error, std::size_t error_bytes) {
  for (const auto& other : kOtherLaunchers) {
    const char* value = getenv(other.variable);
    const unsigned long ranks = value != nullptr ? strtoul(value, nullptr, 10) : 0;
    if (ranks < 2) continue;
    snprintf(
        error, error_bytes,
        "this process is one of %lu that %s has started (%s), but its MPI library is "
        "Rejoin's, whose ranks only ftrun can start: write ftrun -n %lu PROGRAM (for a world of "
        "one, unset %s)",
        ranks, other.launcher, other.variable, ranks, other.variable);
    return true;
  }
  return false;
}

bool attach_alone(char* error, std::size_t error_bytes) {
  if (is_started_by_another(error, error_bytes)) return false;
  const std::uint64_t bytes = journal::segment_bytes_for(1, 0);
  const int fd = memfd_create("rejoin", MFD_CLOEXEC);
  const bool ok =
      fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 && become(fd, bytes, 0, -1, true);
  if (fd >= 0) close(fd);
  if (!ok) snprintf(error, error_bytes, "cannot make a shared memory segment: %s", strerror(errno));
  return ok;
}

// Parses pairs of numbers (device, file). The text of the message is not terminated.
void note_given(const Message& m) {
  char text[200];
  snprintf(text, sizeof text, "%.*s", static_cast<int>(m.text_bytes), m.text);
  char* at = text;
  for (auto& one : given) {
    one.device = strtoull(at, &at, 10);
    one.file = strtoull(at, &at, 10);
  }
}

bool attach_to_agent(const char* name, char* error, std::size_t error_bytes) {
  const char* rank_text = getenv(wire::kEnvRank);
  const auto rank = static_cast<std::uint32_t>(rank_text ? strtoul(rank_text, nullptr, 10) : 0);
  const int connected = wire::connect_to(name, strlen(name));
  if (connected < 0 || !send_first(connected, MessageType::kRegister, rank, "")) {
    snprintf(
        error, error_bytes,
        "this process cannot connect to the ftrun that started it (%s); its job has probably ended",
        strerror(errno));
    if (connected >= 0) close(connected);
    return false;
  }
  const int socket = move_high(connected);
  Message m;
  const int segment = await_welcome(socket, &m);
  const std::uint64_t bytes = segment >= 0 ? size_of(segment) : 0;
  const bool ok = bytes > 0 && become(segment, bytes, rank, socket, false);
  if (segment >= 0) close(segment);
  if (ok) note_given(m);
  if (ok) return true;
  if (m.type == MessageType::kRefused) {
    snprintf(error, error_bytes, "ftrun refuses this process as rank %u: %.*s", rank,
             static_cast<int>(m.text_bytes), m.text);
  } else if (segment >= 0 && bytes == 0) {
    snprintf(error, error_bytes, "this libmpi.so.40 and ftrun are of different builds of Rejoin");
  } else {
    snprintf(error, error_bytes,
             "cannot map the job's shared memory: %s (is the limit on address "
             "space, ulimit -v, below what the journal reserves?)",
             strerror(errno));
  }
  close(socket);
  return false;
}

// The MPI library that the loaded objects want, by the names in their dynamic sections.
struct Wanted {
  bool ours;
  char foreign[64];
};

int look_at_object(dl_phdr_info* info, std::size_t, void* data) {
  Wanted* wanted = static_cast<Wanted*>(data);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
  }
  if (dynamic == nullptr) return 0;
  const char* strings = nullptr;
  for (const ElfW(Dyn)* d = dynamic; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag != DT_STRTAB) continue;
    // The loader relocates this in place, except in read-only objects such as the vDSO.
    const bool relocated = d->d_un.d_ptr >= info->dlpi_addr;
    strings = reinterpret_cast<const char*>(d->d_un.d_ptr + (relocated ? 0 : info->dlpi_addr));
  }
  for (const ElfW(Dyn)* d = dynamic; strings != nullptr && d->d_tag != DT_NULL; ++d) {
    if (d->d_tag != DT_NEEDED) continue;
    const char* name = strings + d->d_un.d_val;
    if (strcmp(name, "libmpi.so.40") == 0) wanted->ours = true;
    for (const char* other : {"libmpich.so", "libmpi.so.12", "libmpi.so.1", "libmpi.so.20"}) {
      const std::size_t n = strlen(other);
      if (strncmp(name, other, n) == 0 && (name[n] == '\0' || name[n] == '.')) {
        snprintf(wanted->foreign, sizeof wanted->foreign, "%s", name);
      }
    }
  }
  return 0;
}

void note_inherited(int fd) {
  struct stat s;
  if (inherited_count == kMostInherited || fstat(fd, &s) != 0 || S_ISREG(s.st_mode)) return;
  inherited[inherited_count++] = {fd, s.st_dev, s.st_ino};
}

// Called before the program has opened anything.
void note_inherited() {
  for (int fd = 0; fd < 3; ++fd) note_inherited(fd);
  wire::each_descriptor([](int fd) {
    if (fd > 2) note_inherited(fd);
    return true;
  });
}

// LD_PRELOAD reaches shells and helpers too: only a program that wants this library registers at
// once.
__attribute__((constructor)) void attach_early() {
  const char* name = find_agent();
  if (name == nullptr) return;
  note_inherited();
  Wanted wanted = {};
  dl_iterate_phdr(look_at_object, &wanted);
  char error[512];
  if (wanted.ours) {
    attach_to_agent(name, error, sizeof error);  // MPI_Init tries again, and reports
  } else if (wanted.foreign[0] != '\0') {
    const int fd = wire::connect_to(name, strlen(name));
    const char* rank = getenv(wire::kEnvRank);
    if (fd < 0) return;
    send_first(fd, MessageType::kForeignAbi,
               static_cast<std::uint32_t>(rank ? strtoul(rank, nullptr, 10) : 0), wanted.foreign);
    close(fd);
  }
}

}  // namespace

Rank* attach(char* error, std::size_t error_bytes) {
  if (attachment != nullptr) return &attachment->rank;
  const char* name = find_agent();
  // Possibly after load: other descriptors may be the program's own by now.
  for (int fd = 0; fd < 3 && inherited_count <= fd; ++fd) note_inherited(fd);
  const bool ok = name != nullptr ? attach_to_agent(name, error, error_bytes)
                                  : attach_alone(error, error_bytes);
  return ok ? &attachment->rank : nullptr;
}

bool is_shims(const std::byte* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::byte* base = attachment->rank.host().base();
  const std::uint64_t segment_bytes = journal::header_of(base)->segment_bytes;
  return (address >= base && address < base + segment_bytes) ||
         (at >= kArenaAddress && at < kArenaAddress + kArenaBytes);
}

bool is_inherited(int fd) {
  struct stat s;
  if (fstat(fd, &s) != 0) return false;
  for (int i = 0; i < inherited_count; ++i) {
    if (inherited[i].device == s.st_dev && inherited[i].file == s.st_ino) return true;
  }
  return false;
}

int standard_pipe(dev_t device, ino_t file) {
  for (int i = 0; i < 3; ++i) {
    if (given[i].device == device && given[i].file == file) return i;
  }
  return -1;
}

void renote_standard_pipes(const int pipes[3]) {
  for (int i = 0; i < 3; ++i) {
    struct stat s;
    if (fstat(pipes[i], &s) != 0) continue;
    given[i] = {s.st_dev, s.st_ino};
  }
}

void move_to_agent(const char* name, const char* secret) {
  const auto replace = [](const char* variable, const char* value) {
    char* place = getenv(variable);
    // Both are of one length in all jobs; the program may have put something else there.
    if (place != nullptr && strlen(place) == strlen(value)) memcpy(place, value, strlen(value));
  };
  replace(wire::kEnvSocket, name);
  replace(wire::kEnvSecret, secret);
  snprintf(agent_address.name, sizeof agent_address.name, "%s", name);
  snprintf(agent_address.secret, sizeof agent_address.secret, "%s", secret);
}

int connect_as(MessageType type, std::uint64_t number, std::uint32_t incarnation,
               const char* text) {
  const int connected = wire::connect_to(agent_address.name, strlen(agent_address.name));
  if (connected < 0) return -1;
  const int socket = move_high(connected);
  if (send_first(socket, type, attachment->rank.rank(), text, number, incarnation)) return socket;
  close(socket);
  return -1;
}

bool attach_again(int socket) {
  Message m;
  const int segment = await_welcome(socket, &m);
  if (segment < 0) return false;
  const std::uint64_t bytes = size_of(segment);
  std::byte* base = attachment->host.base();
  constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  const bool ok =
      bytes > 0 && mmap(base, bytes, PROT_READ | PROT_WRITE, kFlags, segment, 0) == base;
  close(segment);
  if (!ok) return false;
  advise(base, bytes);
  engine::advise_segment(base, attachment->rank.rank());
  attachment->host.woken(socket);
  return true;
}

Rank* attached_rank() { return attachment != nullptr ? &attachment->rank : nullptr; }

}  // namespace rejoin::recovery
