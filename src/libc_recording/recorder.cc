#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "journal/system_call.h"
#include "libc_recording/hooks.h"
#include "libc_recording/observations.h"
#include "libc_recording/observed.h"
#include "recovery/attach.h"
#include "wire/messages.h"

namespace rejoin::libc_recording {
namespace {

using journal::system_call;  // bypasses librejoin_libc.so, which calls this file

// The recorder of this process, made at the first question. `in_rank` lies in memory that a forked
// child gets zeroed: the child has no segment and is no rank.
struct Recorder {
  Observations observations;
  volatile int* in_rank = nullptr;
  bool libc = true;   // --libc-recording off: only MPI_Wtime
  bool busy = false;  // a signal handler that interrupts a record is not observed
  std::uintptr_t shim_begin = 0, shim_end = 0;
  Pids pids;  // a forked child, which has no segment, needs them too
  explicit Recorder(recovery::Rank& rank)
      : observations(rank),
        pids{static_cast<int>(system_call(SYS_getpid)), static_cast<int>(system_call(SYS_getppid)),
             static_cast<int>(observations.pid()), static_cast<int>(observations.parent())} {}
  bool is_shim(const void* caller) const {
    const auto address = reinterpret_cast<std::uintptr_t>(caller);
    return address >= shim_begin && address < shim_end;
  }
};

Recorder* the_recorder = nullptr;
bool alone = false;  // this is a job of one without ftrun, in which there will be no replay

enum class Thread : unsigned char { kUnknown, kMain, kOther };
#define REJOIN_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
REJOIN_THREAD_LOCAL Thread this_thread = Thread::kUnknown;
REJOIN_THREAD_LOCAL int unobserved = 0;  // Unobserved objects of this thread

bool on_main_thread() {
  if (this_thread == Thread::kUnknown) {
    this_thread =
        system_call(SYS_gettid) == system_call(SYS_getpid) ? Thread::kMain : Thread::kOther;
  }
  return this_thread == Thread::kMain;
}

int find_shim(dl_phdr_info* info, std::size_t, void* data) {
  Recorder* recorder = static_cast<Recorder*>(data);
  std::uintptr_t begin = ~std::uintptr_t{0}, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& h = info->dlpi_phdr[i];
    if (h.p_type != PT_LOAD) continue;
    begin = std::min<std::uintptr_t>(begin, info->dlpi_addr + h.p_vaddr);
    end = std::max<std::uintptr_t>(end, info->dlpi_addr + h.p_vaddr + h.p_memsz);
  }
  const auto here = reinterpret_cast<std::uintptr_t>(&find_shim);
  if (here < begin || here >= end) return 0;
  recorder->shim_begin = begin;
  recorder->shim_end = end;
  return 1;
}

bool wipe_on_fork(const volatile void* page) {
  return system_call(SYS_madvise, reinterpret_cast<long>(page), sysconf(_SC_PAGESIZE),
                     MADV_WIPEONFORK) == 0;
}

int* make_wiped_flag(journal::Arena& arena) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto memory = reinterpret_cast<std::uintptr_t>(arena.allocate(2 * page));
  if (memory == 0) return nullptr;
  void* aligned = reinterpret_cast<void*>((memory + page - 1) & ~(page - 1));
  return wipe_on_fork(aligned) ? static_cast<int*>(aligned) : nullptr;
}

// nullptr: this process is no rank. Main thread only.
Recorder* recorder() {
  if (the_recorder != nullptr) return *the_recorder->in_rank ? the_recorder : nullptr;
  recovery::Rank* rank = recovery::attached_rank();
  if (rank == nullptr || alone) return nullptr;
  alone = getenv(wire::kEnvSocket) == nullptr;
  static bool beginning = false;
  if (alone || beginning) return nullptr;
  beginning = true;
  Recorder* w = rank->arena().make<Recorder>(*rank);
  int* flag = w != nullptr ? make_wiped_flag(rank->arena()) : nullptr;
  if (flag == nullptr) rank->diverged("there is no memory for the recording of libc");
  *flag = 1;
  w->in_rank = flag;
  const char* setting = getenv(wire::kEnvLibcRecording);
  w->libc = setting == nullptr || strcmp(setting, "off") != 0;
  dl_iterate_phdr(find_shim, w);
  __atomic_store_n(&the_recorder, w, __ATOMIC_RELEASE);
  return w;
}

class Busy {
 public:
  Busy() { the_recorder->busy = true; }
  ~Busy() { the_recorder->busy = false; }
};

}  // namespace

void skip_observations(std::uint64_t position) {
  if (recorder() != nullptr) the_recorder->observations.skip_to(position);
}

void mark_observations() {
  if (on_main_thread() && recorder() != nullptr) the_recorder->observations.mark();
}

void truncate_observations(std::uint64_t keep_from) {
  if (on_main_thread() && recorder() != nullptr) the_recorder->observations.truncate(keep_from);
}

bool has_live_observations() {
  if (on_main_thread()) recorder();
  return the_recorder == nullptr || (!the_recorder->busy && the_recorder->observations.is_live());
}

void mark_image(std::uint64_t keep_from) {
  if (the_recorder == nullptr) return;
  the_recorder->observations.mark();
  the_recorder->observations.truncate(keep_from);
  the_recorder->observations.note_image();
}

void move_observations() {
  if (the_recorder == nullptr) return;
  *the_recorder->in_rank = 1;  // the kernel has cleared it in the clone
  // A process that was restored from a file lacks the advice to clear it in children.
  wipe_on_fork(the_recorder->in_rank);
  the_recorder->pids.pid = static_cast<int>(system_call(SYS_getpid));
  the_recorder->pids.parent = static_cast<int>(system_call(SYS_getppid));
  the_recorder->observations.restart_clocks();
}

void wake_observations() {
  if (the_recorder == nullptr) return;
  move_observations();
  the_recorder->observations.wake();
  if (rejoin_libc_woken != nullptr) rejoin_libc_woken();
}

void start_recording() {
  if (on_main_thread()) recorder();
}

Unobserved::Unobserved() { ++unobserved; }
Unobserved::~Unobserved() { --unobserved; }

double observed_wtime() {
  const bool observed =
      on_main_thread() && unobserved == 0 && recorder() != nullptr && !the_recorder->busy;
  std::int64_t value;
  const auto series = static_cast<unsigned>(Series::kWtime);
  if (!observed || !rejoin_libc_recall_series(series, &value)) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    value = now.tv_sec * kSecond_ns + now.tv_nsec;
    if (observed) rejoin_libc_record_series(series, &value);
  }
  const std::int64_t whole_s = value / kSecond_ns;
  return static_cast<double>(whole_s) + static_cast<double>(value % kSecond_ns) * 1e-9;
}

}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

int rejoin_libc_observing(const void* caller) {
  if (!on_main_thread()) return 0;
  const Recorder* w = recorder();
  if (w == nullptr || !w->libc || w->busy || unobserved != 0) return 0;
  return !w->is_shim(caller);
}

int rejoin_libc_recall_series(unsigned series, std::int64_t* values) {
  const Busy busy;
  return the_recorder->observations.recall(static_cast<Series>(series), values);
}

std::int64_t rejoin_libc_ahead(unsigned series, std::int64_t now) {
  const Busy busy;
  return the_recorder->observations.ahead(static_cast<Series>(series), now);
}

void rejoin_libc_record_series(unsigned series, std::int64_t* values) {
  const Busy busy;
  the_recorder->observations.record(static_cast<Series>(series), values);
}

int rejoin_libc_recall(Event* event) {
  const Busy busy;
  return the_recorder->observations.recall(*event);
}

void rejoin_libc_record(const Event* event) {
  const Busy busy;
  the_recorder->observations.record(*event);
}

unsigned rejoin_libc_next_answer_bytes() {
  const Busy busy;
  return the_recorder->observations.next_answer_bytes();
}

void rejoin_libc_set_rewritten(std::uint32_t file, const char* path) {
  const Busy busy;
  the_recorder->observations.files().set_rewritten(file, path);
}

int rejoin_libc_rewritten(std::uint32_t file, char* path, unsigned room_bytes) {
  const Busy busy;
  return the_recorder->observations.files().rewritten(file, path, room_bytes);
}

void rejoin_libc_note_aside(const char* path) {
  const Busy busy;
  the_recorder->observations.files().note_aside(path);
}

void rejoin_libc_note_ghost(std::uint32_t file, const char* path) {
  const Busy busy;
  the_recorder->observations.files().note_ghost(file, path);
}

int rejoin_libc_ghost(std::uint32_t file) {
  const Busy busy;
  return the_recorder->observations.files().ghost(file);
}

int rejoin_libc_noted(unsigned n, char* path, unsigned room_bytes, std::uint32_t* file) {
  const Busy busy;
  return the_recorder->observations.files().noted(n, path, room_bytes, file);
}

int rejoin_libc_written_elsewhere(std::uint32_t file, int kept) {
  const Busy busy;
  return the_recorder->observations.files().written_elsewhere(file, kept != 0);
}

int rejoin_libc_written_in_place(std::uint32_t file) {
  const Busy busy;
  return the_recorder->observations.files().written_in_place(file);
}

void* rejoin_libc_allocate(unsigned bytes) {
  const Busy busy;
  return the_recorder->observations.memory().make_array<std::byte>(bytes);
}

void rejoin_libc_release(void* memory, unsigned bytes) {
  const Busy busy;
  the_recorder->observations.memory().release(static_cast<std::byte*>(memory), bytes);
}

int rejoin_libc_pids(const void* caller, Pids* pids) {
  const Recorder* r = __atomic_load_n(&the_recorder, __ATOMIC_ACQUIRE);
  if (r == nullptr && on_main_thread()) r = recorder();
  if (r == nullptr || !r->libc || r->is_shim(caller)) return 0;
  *pids = r->pids;
  return 1;
}

int rejoin_libc_socket(const void* caller, int* pid) {
  Recorder* r = __atomic_load_n(&the_recorder, __ATOMIC_ACQUIRE);
  if (r == nullptr || r->is_shim(caller)) return -1;
  *pid = r->pids.pid;
  return r->observations.rank().host().agent_socket();
}

void rejoin_libc_tell(const char* name, const char* text) {
  const Busy busy;
  if (the_recorder->observations.told(name)) return;
  char line[1024];
  snprintf(line, sizeof line, "%.400s %s", name, text);
  the_recorder->observations.rank().notice(line);
}

void rejoin_libc_tell_of_replay(const char* subject, const char* text) {
  const Busy busy;
  rejoin::recovery::Rank& rank = the_recorder->observations.rank();
  char line[1024];
  snprintf(line, sizeof line, "the replay of rank %u %.900s", rank.rank(), text);
  rank.notice_once(subject, line);
}

void rejoin_libc_untrue(const char* name, const char* text) {
  const Busy busy;
  rejoin::recovery::Rank& rank = the_recorder->observations.rank();
  if (rejoin::journal::job_of(rank.host())->stop_on_divergence == 0) {
    if (the_recorder->observations.told(name)) return;
    char line[1024];
    snprintf(line, sizeof line, "%.400s %s", name, text);
    return rank.notice(line);
  }
  char line[1024];
  snprintf(line, sizeof line,
           "the replay of rank %u: %.400s %s. With --on-divergence warn the job goes on "
           "nevertheless; see docs/libc-recording.md",
           rank.rank(), name, text);
  rank.diverged(line);
}
