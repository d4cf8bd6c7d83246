// MPI_Init to MPI_Finalize, and what can be asked about them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "api.h"
#include "journal/peer_view.h"
#include "libc_recording/observed.h"
#include "pmpi/attributes.h"
#include "pmpi/call.h"
#include "pmpi/comm.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"
#include "process_image/freezer.h"
#include "wire/messages.h"

namespace rejoin::pmpi {

Context* context = nullptr;
bool is_watched = false;
bool is_shared = false;
bool is_timed = false;
std::uint32_t calls_untimed = 0;

namespace {

using journal::Moment;
using journal::PointKind;

std::uint64_t cpu_ns() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// Returns the processor time between two readings of the clock with nothing between them.
std::uint64_t reading_cpu_ns() {
  std::uint64_t least_ns = UINT64_MAX;
  for (int i = 0; i < 16; ++i) {
    const std::uint64_t first_ns = cpu_ns();
    least_ns = std::min(least_ns, cpu_ns() - first_ns);
  }
  return least_ns;
}

// Times the replay from here on. Also called in a woken image of this process, within an MPI call.
void time_replay() {
  context->rank->replay_clock() = recovery::ReplayClock();
  context->rank->replay_clock().start(reading_cpu_ns());
  calls_untimed = 1;
  is_watched = is_timed = true;
}

void open_world(Rank& rank) {
  Scratch members(rank.size() * sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < rank.size(); ++i) members.as<std::uint32_t>()[i] = i;
  const std::uint32_t me = rank.rank();
  open_comm(MPI_COMM_WORLD,
            rank.make_comm(journal::world_context(), members.as<std::uint32_t>(), rank.size()));
  open_comm(MPI_COMM_SELF, rank.make_comm(journal::self_context(me), &me, 1));
}

// Ends the job if several threads of a former incarnation have called MPI, because the order of
// their calls is not recorded.
void refuse_several_threads(Rank& rank) {
  if (rank.control().several_threads_before.load(std::memory_order_relaxed) == 0) return;
  char text[256];
  snprintf(text, sizeof text,
           "rank %u cannot be started again: several of its threads have called MPI "
           "(MPI_THREAD_MULTIPLE), in an order that is not recorded; see docs/fault-model.md",
           rank.rank());
  rank.diverged(text);
}

// Ends the job if the journal is full, and a second thread calls for the first time: until others
// see that, they use memory again that it may have to read (PROTOCOL.md, "When the journal is
// full").
void refuse_late_thread(Rank& rank) {
  // The others look at this thread's flag behind the word that is read here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const journal::PeerView peers(rank.host());
  if (!peers.recycles() || !peers.recycles_results()) return;
  end_job(MPI_ERR_OTHER,
          "since the journal became full, a second thread calls MPI for the first time "
          "(MPI_THREAD_MULTIPLE), and what it has to receive may be overwritten; --journal-limit "
          "makes the journal larger");
}

void start(const char* function, int thread_level) {
  if (context != nullptr) {
    char text[256], where[64];
    put_call_site(where, sizeof where);
    snprintf(text, sizeof text, "%s was called %s%s%s", function,
             context->finalized ? "after MPI_Finalize; MPI cannot be started again" : "twice",
             where[0] != '\0' ? " at " : "", where);
    end_job(MPI_ERR_OTHER, text);
  }
  char error[600];
  Rank* rank = recovery::attach(error, sizeof error);
  if (rank == nullptr) {
    char text[700];
    snprintf(text, sizeof text, "%s: %s", function, error);
    end_job(1, text);
  }
  rank->point(PointKind::kInit, Moment::kBefore);
  void* memory = rank->arena().allocate(sizeof(Context));
  if (memory == nullptr) end_job(1, "MPI_Init cannot allocate memory for the MPI library");
  Context* c = new (memory) Context{};
  c->rank = rank;
  c->thread_level = thread_level;
  c->first_thread = pthread_self();
  c->universe_size = static_cast<int>(rank->size());
  const char* program = getenv(wire::kEnvProgram);
  c->program = program != nullptr ? atoi(program) : 0;
  init_fortran_tables(c);
  context = c;
  refuse_several_threads(*rank);
  libc_recording::start_recording();
  libc_recording::report_faults();
  open_world(*rank);
  process_image::install(*rank, time_replay);
  rank->point(PointKind::kInit, Moment::kInside);
  // Stored before set_initialized(): from then on the agent looks for deadlocks.
  const bool may_call = thread_level == MPI_THREAD_MULTIPLE;
  rank->control().threads_may_call.store(rank->host(), journal::Step::kFlag, may_call ? 1 : 0);
  rank->set_initialized(1);
  rank->point(PointKind::kInit, Moment::kAfter);
  is_shared = thread_level == MPI_THREAD_MULTIPLE;
  is_watched = is_shared;
  if (rank->is_replaying()) time_replay();
}

// Clears the stack below the caller. Initialisation leaves bytes there that differ between
// incarnations, and uninitialised variables of the program would contain them.
[[gnu::noinline]] void wipe_dead_stack() {
  char dead[32 * 1024];
  explicit_bzero(dead, sizeof dead);
}

}  // namespace

void Entered::enter() {
  const bool is_first = pthread_equal(pthread_self(), context->first_thread);
  if (!is_first) context->rank->host().share();
  context->rank->host().enter();
  if (is_first) return;
  journal::RankControl& control = context->rank->control();
  const std::uint64_t wanted = control.snapshot_wanted.load(std::memory_order_acquire);
  auto& before = control.several_threads_before;
  const bool is_new = before.load(std::memory_order_relaxed) == 0;
  before.store(context->rank->host(), journal::Step::kFlag, wanted + 1);
  if (is_new) refuse_late_thread(*context->rank);
}

void Entered::begin_timing() {
  recovery::ReplayClock& clock = context->rank->replay_clock();
  // is_next_watched() has counted this call, unless the function does not call it.
  if (clock.is_measuring() || (calls_untimed != 0 && --calls_untimed != 0)) return;
  if (!clock.is_running()) {  // the rank is live
    is_timed = false;
    is_watched = is_shared;
    return;
  }
  timed_ = true;
  clock.begin(cpu_ns());
}

void Entered::end_timing() { calls_untimed = context->rank->replay_clock().end(cpu_ns()); }

int give_text(char* to, std::size_t room, const char* text) {
  strncpy(to, text, room);
  to[room - 1] = '\0';
  return static_cast<int>(strlen(to));
}

void* allocate(std::size_t bytes) {
  void* p = context->rank->arena().allocate(bytes);
  if (p == nullptr)
    end_job(
        MPI_ERR_NO_MEM,
        "the MPI library's memory is used up: the program may have too many messages that it has "
        "not received yet, or handles (requests, datatypes, communicators) that it has not freed");
  return p;
}

void release(void* memory, std::size_t bytes) { context->rank->arena().release(memory, bytes); }

int init(int*, char***) {
  start("MPI_Init", MPI_THREAD_SINGLE);
  wipe_dead_stack();
  return MPI_SUCCESS;
}

int init_thread(int*, char***, int required, int* provided) {
  constexpr const char* kName = "MPI_Init_thread";
  start(kName, required < MPI_THREAD_MULTIPLE ? required : MPI_THREAD_MULTIPLE);
  if (provided == nullptr) return fail_null(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "provided");
  *provided = context->thread_level;
  wipe_dead_stack();
  return MPI_SUCCESS;
}

int finalize(const void* site) {
  constexpr const char* kName = "MPI_Finalize";
  require_active(kName);
  Rank& rank = *context->rank;
  rank.point(PointKind::kFinalize, Moment::kBefore);
  delete_attributes(MPI_COMM_SELF);  // MPI 3.1 section 8.7.1: before anything else
  const recovery::Status status =
      rank.replicated(*MPI_COMM_WORLD->comm, call_of(site, recovery::OpKind::kFinalize, -1, 0), {})
          .status;
  if (status != recovery::Status::kOk) {  // whatever the error handler says: nothing can follow
    char text[1024];
    snprintf(text, sizeof text, "%s: %s", kName, rank.last_error());
    end_job(class_of(status), text);
  }
  rank.point(PointKind::kFinalize, Moment::kInside);
  context->finalized = true;
  is_watched = is_shared = is_timed = false;
  MPI_COMM_WORLD->magic = Magic::kNone;
  MPI_COMM_SELF->magic = Magic::kNone;
  rank.set_initialized(2);
  rank.point(PointKind::kFinalize, Moment::kAfter);
  return MPI_SUCCESS;
}

int initialized(int* flag) {
  *flag = context != nullptr;
  return MPI_SUCCESS;
}

int finalized(int* flag) {
  *flag = context != nullptr && context->finalized;
  return MPI_SUCCESS;
}

int query_thread(int* provided) {
  require_active("MPI_Query_thread");
  *provided = context->thread_level;
  return MPI_SUCCESS;
}

int is_thread_main(int* flag) {
  require_active("MPI_Is_thread_main");
  *flag = pthread_equal(pthread_self(), context->first_thread) != 0;
  return MPI_SUCCESS;
}

int abort(MPI_Comm, int errorcode) {
  require_active("MPI_Abort");
  char text[128], where[64];
  put_call_site(where, sizeof where);
  snprintf(text, sizeof text, "MPI_Abort(%d) at %s", errorcode, where);
  end_job(errorcode, where[0] != '\0' && has_agent() ? text : "");
}

int get_version(int* version, int* subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}

int get_library_version(char* version, int* resultlen) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  snprintf(
      text, sizeof text,
      "Rejoin " REJOIN_VERSION
      ", an MPI library that restarts single ranks; its binary interface is that of Open MPI %d.%d",
      OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
  *resultlen = give_text(version, sizeof text, text);
  return MPI_SUCCESS;
}

int get_processor_name(char* name, int* resultlen) {
  require_active("MPI_Get_processor_name");
  char host[MPI_MAX_PROCESSOR_NAME];
  if (gethostname(host, sizeof host) != 0) strcpy(host, "localhost");
  host[sizeof host - 1] = '\0';
  *resultlen = give_text(name, sizeof host, host);
  return MPI_SUCCESS;
}

int query_cuda_support() { return 0; }

}  // namespace rejoin::pmpi
