// rejoin.h and MPI_Pcontrol: checkpoints, and marks of the next operation.
#include "rejoin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <algorithm>

#include "api.h"
#include "copy/copy.h"
#include "journal/waiting.h"
#include "libc_recording/observations.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "recovery/checkpoint_policy.h"
#include "recovery/hash.h"

// Collects a model that is written lazily.
struct rejoin_stream {
  std::byte* data;
  std::size_t bytes;
  std::size_t room;
};

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Status;

struct {
  char error[1024];
  rejoin_stream stream;
  std::uint64_t written_version;  // the newest checkpoint that this process has chosen to write
  double written_s;               // when it did so
  double write_cost_s;            // how long that took, including the wait for all ranks
  std::uint64_t journal_bytes;    // the size of the journal then
} state;

int refuse(int code, const char* text) {
  snprintf(state.error, sizeof state.error, "%s", text);
  return code;
}

int refuse(Status status) {
  const int code = status == Status::kMismatch   ? REJOIN_ERR_MODEL
                   : status == Status::kNoMemory ? REJOIN_ERR_MEMORY
                   : status == Status::kKey      ? REJOIN_ERR_KEY
                                                 : REJOIN_ERR_STATE;
  return refuse(code, context->rank->last_error());
}

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Sends the agent the position of this rank's output, and waits for its answer
// (MessageType::kMark).
void mark_output(std::uint64_t value) {
  if (!context->rank->host().has_agent()) return;
  fflush(stdout);
  auto& host = context->rank->host();
  const auto& mark = journal::own_control(host)->output_mark;
  if (mark.load(std::memory_order_acquire) == value) return;
  host.tell(wire::MessageType::kMark, 0, value, nullptr, 0);
  journal::wait_until(host, [&](bool) { return mark.load(std::memory_order_acquire) == value; });
}

int checkpoint(const void* site, const recovery::Models& models) {
  Rank& rank = *context->rank;
  const recovery::Call call = call_of(site, OpKind::kCheckpoint, -1, 0);
  rank.begin_log(call);
  rank.log().set_model_bytes(models.global_bytes + models.local_bytes);
  // Output marks make output exactly-once: the launcher discards what a restarted rank prints again
  // before its mark. A job that restarts ranks from snapshots sets the mark at each snapshot; a
  // mark set here would overwrite it.
  const bool may_begin_here = rank.may_begin_at_version();
  if (may_begin_here && !rank.is_prepared()) {
    mark_output(2 * (rank.version() + 1));
  } else if (rank.keeps_models() && rank.is_written(rank.version() + 1)) {
    fflush(stdout);  // a job that is resumed from this version does not print it again
  }
  if (may_begin_here) rejoin::libc_recording::mark_observations();
  const Status status = rank.checkpoint(*MPI_COMM_WORLD->comm, call, models);
  if (status != Status::kOk) return refuse(status);
  if (may_begin_here) libc_recording::truncate_observations(rank.observations_mark());
  const auto* header = journal::job_of(rank.host());
  // A former incarnation that has prepared a later version has reported this one already.
  if (rank.rank() == 0 && header->tell_committed != 0 && !rank.is_prepared()) {
    const bool kept = rank.keeps_models() && rank.is_written(rank.version());
    rank.host().tell(wire::MessageType::kCommitted, kept, rank.version(), nullptr, 0);
  }
  return static_cast<int>(rank.version());
}

bool wrong_model(const void* data, std::size_t bytes) { return data == nullptr && bytes > 0; }

std::uint64_t journal_bytes() { return journal::PeerView(context->rank->host()).backed_bytes(0); }

// Called at rank 0 when it is about to write checkpoint `v`, which costs about write_cost_s.
// Returns the version that will be written next.
std::uint64_t next_written(std::uint64_t v, double write_cost_s) {
  const auto* header = journal::job_of(context->rank->host());
  const double now = now_s();
  const std::uint64_t journal = journal_bytes();
  recovery::LazyInterval interval;
  if (state.written_version != 0) {
    interval = {v - state.written_version, now - state.written_s,
                journal - std::min(journal, state.journal_bytes)};
  }
  const std::uint64_t max_growth = header->journal_limit_bytes / (4 * header->ranks);
  state.written_version = v;
  state.written_s = now;
  state.journal_bytes = journal;
  return v + recovery::lazy_distance(interval, write_cost_s, max_growth);
}

}  // namespace

}  // namespace rejoin::pmpi

using namespace rejoin::pmpi;
using rejoin::recovery::Loaded;
using rejoin::recovery::Models;

extern "C" {

const char* rejoin_error(void) { return state.error; }

int rejoin_load(const void** global, size_t* global_bytes, const void** local,
                size_t* local_bytes) {
  const void* site = __builtin_return_address(0);
  if (!active())
    return refuse(REJOIN_ERR_ARGUMENT,
                  "rejoin_load was called before MPI_Init or after MPI_Finalize");
  Rank& rank = *context->rank;
  rank.begin_log({{static_cast<std::uint16_t>(OpKind::kLoad), 0, 0, 0, -1, 0, 0}, site});
  Loaded loaded;
  const Status status = rank.load(&loaded);
  if (loaded.restored) {
    mark_output(2 * loaded.version + 1);
    rejoin::libc_recording::skip_observations(loaded.observations);
  }
  rank.log().set_model_bytes(loaded.global_bytes + loaded.local_bytes);
  rank.end_log(status);
  if (status != Status::kOk) return refuse(status);
  if (global != nullptr) *global = loaded.global;
  if (global_bytes != nullptr) *global_bytes = loaded.global_bytes;
  if (local != nullptr) *local = loaded.local;
  if (local_bytes != nullptr) *local_bytes = loaded.local_bytes;
  return static_cast<int>(loaded.version);
}

int rejoin_checkpoint(const void* global, size_t global_bytes, const void* local,
                      size_t local_bytes) {
  const void* site = __builtin_return_address(0);
  if (!active())
    return refuse(REJOIN_ERR_ARGUMENT,
                  "rejoin_checkpoint was called before MPI_Init or after MPI_Finalize");
  if (wrong_model(global, global_bytes) || wrong_model(local, local_bytes)) {
    return refuse(REJOIN_ERR_ARGUMENT, "rejoin_checkpoint: a model is NULL but has a size");
  }
  Models m{global, global_bytes, local, local_bytes};
  Rank& rank = *context->rank;
  const std::uint64_t v = rank.version() + 1;
  // A job of images stores models only in files, and only as often as that costs next to nothing.
  const bool chooses = rank.rank() == 0 && !rank.is_prepared() && rank.in_job_of_images() &&
                       rank.keeps_models() && rank.is_written(v);
  // Only the copy counts as cost: ranks wait for each other at every checkpoint, perhaps for long.
  if (chooses) m.next = next_written(v, 1e-9 * static_cast<double>(rank.copy_ns()));
  return checkpoint(site, m);
}

void rejoin_write(rejoin_stream* to, const void* data, size_t bytes) {
  if (to->room - to->bytes < bytes) {
    const std::size_t room = 2 * (to->bytes + bytes);
    auto* moved = static_cast<std::byte*>(allocate(room));
    rejoin::copy_payload(moved, to->data, to->bytes);
    if (to->room > 0) release(to->data, to->room);
    to->data = moved;
    to->room = room;
  }
  rejoin::copy_payload(to->data + to->bytes, data, bytes);
  to->bytes += bytes;
}

int rejoin_checkpoint_lazy(void (*serialize)(void* model, rejoin_stream* to), void* model) {
  const void* site = __builtin_return_address(0);
  if (!active())
    return refuse(REJOIN_ERR_ARGUMENT,
                  "rejoin_checkpoint_lazy was called before MPI_Init or after MPI_Finalize");
  if (serialize == nullptr)
    return refuse(REJOIN_ERR_ARGUMENT,
                  "rejoin_checkpoint_lazy: the function that writes the model is NULL");
  Rank& rank = *context->rank;
  const std::uint64_t v = rank.version() + 1;
  if (!rank.is_written(v)) {
    const rejoin::recovery::Call call = call_of(site, OpKind::kCheckpoint, -1, 0);
    rank.begin_log(call);
    rank.pass_checkpoint(*MPI_COMM_WORLD->comm, call);
    return static_cast<int>(v);
  }
  Models m;
  m.compared = false;
  if (rank.rank() == 0 && !rank.is_prepared() && rank.keeps_models()) {
    const double begin = now_s();
    state.stream.bytes = 0;
    serialize(model, &state.stream);
    m.global = state.stream.data;
    m.global_bytes = state.stream.bytes;
    m.next = next_written(v, std::max(state.write_cost_s, 2 * (now_s() - begin)));
    const int version = checkpoint(site, m);
    state.write_cost_s = now_s() - begin;
    return version;
  }
  return checkpoint(site, m);
}

int rejoin_version(void) { return active() ? static_cast<int>(context->rank->version()) : 0; }

int rejoin_bootstrap(const char* key) {
  if (!active())
    return refuse(REJOIN_ERR_ARGUMENT,
                  "rejoin_bootstrap was called before MPI_Init or after MPI_Finalize");
  context->rank->note_marks();
  if (key != nullptr && key[0] == '\0') return 0;
  context->hinted = context->hint.bootstrap = true;
  context->hint.key = key != nullptr ? XXH3_64bits(key, strlen(key)) | 1 : 0;
  if (key == nullptr || !context->rank->is_bootstrap_key_used(context->hint.key)) return 0;
  char text[240];
  snprintf(text, sizeof text,
           "rejoin_bootstrap: the key \"%.100s\" was used for another operation before; each "
           "operation needs a key of its own",
           key);
  return refuse(REJOIN_ERR_KEY, text);
}

void rejoin_call_site(const char* file, int line, const char* function) {
  if (active()) context->site = {file, function, static_cast<std::uint32_t>(line)};
}

void rejoin_prepare(void (*prepare)(void* argument), void* argument) {
  if (!active()) return;
  context->hinted = true;
  context->hint.prepare = prepare;
  context->hint.argument = argument;
}

int rejoin_replaying(void) { return active() && context->rank->is_replaying(); }

int rejoin_incarnation(void) {
  return active() ? static_cast<int>(context->rank->incarnation()) : 0;
}

void rejoin_notice(const char* text) {
  if (active() && context->rank->host().has_agent()) {
    context->rank->notice(text);
  } else {
    fprintf(stderr, "rejoin: %s\n", text);
  }
}

}  // extern "C"

namespace rejoin::pmpi {
namespace {

[[noreturn]] void fail_pcontrol(const char* what) {
  char text[1200];
  snprintf(text, sizeof text, "MPI_Pcontrol(%s): %s", what, rejoin_error());
  end_job(1, text);
}

void load_into(int* version, void* model, std::size_t bytes) {
  const void* global;
  std::size_t found;
  const int loaded = rejoin_load(&global, &found, nullptr, nullptr);
  if (loaded < 0) fail_pcontrol("load");
  if (loaded > 0 && found != bytes) {
    char text[160];
    snprintf(text, sizeof text,
             "MPI_Pcontrol(load): the model of version %d has %zu byte%s, not %zu", loaded, found,
             found == 1 ? "" : "s", bytes);
    end_job(1, text);
  }
  if (loaded > 0) copy_payload(model, global, bytes);
  *version = loaded;
}

}  // namespace

int pcontrol(const int level, va_list arguments) {
  if (level < REJOIN_PCONTROL_LOAD || level > REJOIN_PCONTROL_BOOTSTRAP) return MPI_SUCCESS;
  require_active("MPI_Pcontrol");
  if (level == REJOIN_PCONTROL_LOAD) {
    int* version = va_arg(arguments, int*);
    void* model = va_arg(arguments, void*);
    load_into(version, model, va_arg(arguments, std::size_t));
  } else if (level == REJOIN_PCONTROL_CHECKPOINT) {
    const void* model = va_arg(arguments, const void*);
    const std::size_t bytes = va_arg(arguments, std::size_t);
    if (rejoin_checkpoint(model, bytes, nullptr, 0) < 0) fail_pcontrol("checkpoint");
  } else {
    if (rejoin_bootstrap(va_arg(arguments, const char*)) < 0) fail_pcontrol("bootstrap");
  }
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
