// What ranks print and read, and what ftrun says itself.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/job.h"
#include "launcher/supervisor/events.h"

namespace rejoin::launcher {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kMostWaitingBytes = 4 << 20;  // then ranks wait for our reader
constexpr std::uint64_t kRetryStdinNs = 500'000'000;
const char* const kStreamNames[] = {"standard output", "standard error"};

}  // namespace

// ----------------------------------------------------------------------------------- of the ranks

bool Job::may_read_output(int stream) const {
  return (stream == 0 ? out_ : err_).waiting_bytes() <= kMostWaitingBytes;
}

bool Job::read_output(std::uint32_t rank, int stream, bool to_the_end) {
  RankIo& r = ranks_[rank];
  Writer& writer = stream == 0 ? out_ : err_;
  bool something = false;
  char buffer[kReadBytes];
  while (r.output[stream].open()) {
    const ssize_t got = read(r.output[stream].get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      r.output[stream].reset();
      check_output_ended(rank);
      break;
    }
    something = true;
    const std::string_view bytes(buffer, static_cast<std::size_t>(got));
    if (is_late(r, rank)) {
      r.late[stream] += bytes;
    } else {
      r.stream[stream].feed(bytes, writer.queue());
    }
    if (!to_the_end) break;
  }
  tell_difference(rank, stream, false);
  if (!r.stream[stream].has_unfinished_line()) {
    r.unfinished_since_ns[stream] = 0;
  } else if (something) {
    r.unfinished_since_ns[stream] = now_ns();
  }
  return something;
}

// An unfinished line is shown when the rank pauses within it, not when its end only waits for us.
void Job::flush_stale_line(std::uint32_t rank, int stream) {
  if (!may_read_output(stream)) {
    ranks_[rank].unfinished_since_ns[stream] = now_ns();
  } else if (!read_output(rank, stream, false)) {
    flush_output(rank, stream);
  }
}

// The tree is dead, so what is in the pipes is all there will be; a process that escaped may hold
// them open.
void Job::drain_output(std::uint32_t rank) {
  for (int stream = 0; stream < 2; ++stream) {
    read_output(rank, stream, true);
    ranks_[rank].output[stream].reset();
  }
  if (rank == 0) {
    input_pipe_.reset();
    input_.reader_ended();
  }
}

// MessageType::kMark: the rank waits, so what is in the pipes is what it has printed so far.
void Job::mark_output(std::uint32_t rank, std::uint64_t value) {
  for (int stream = 0; stream < 2; ++stream) {
    read_output(rank, stream, true);
    OutputStream& s = ranks_[rank].stream[stream];
    if (value % 2 == 0) {
      s.mark(value / 2, (stream == 0 ? out_ : err_).queue());
    } else {
      s.jump(value / 2);
    }
  }
  segment_.set_output_mark(rank, value);
}

// A shell learns of its program's death when we do, and may say something before it is killed too.
// The pidfd is readable before anybody can be told.
bool Job::is_late(const RankIo& r, std::uint32_t rank) const {
  if (r.killed) return true;
  if (!r.registered.open()) return false;
  const auto* control = engine::control_of(segment_.base(), rank);
  if (control->initialized.load(std::memory_order_relaxed) == 2) return false;  // an orderly end
  return has_ended(r.registered.get());
}

void Job::show_late_output(std::uint32_t rank) {
  RankIo& r = ranks_[rank];
  for (int stream = 0; stream < 2; ++stream) {
    if (r.late[stream].empty()) continue;
    r.stream[stream].feed(r.late[stream], (stream == 0 ? out_ : err_).queue());
    r.late[stream].clear();
  }
}

void Job::check_output_ended(std::uint32_t rank) {
  RankIo& r = ranks_[rank];
  if (r.await_output_until_ns == 0) return;
  const bool open = r.output[0].open() || r.output[1].open();
  if (open && now_ns() < r.await_output_until_ns) return;
  r.await_output_until_ns = 0;
  feed(AgentEvent{AgentEvent::Kind::kOutputEnded, rank, now_ns()});
}

void Job::flush_output(std::uint32_t rank, int stream) {
  ranks_[rank].stream[stream].flush((stream == 0 ? out_ : err_).queue());
  ranks_[rank].unfinished_since_ns[stream] = 0;
}

void Job::tell_difference(std::uint32_t rank, int stream, bool ended) {
  if (!ranks_[rank].stream[stream].take_difference(ended)) return;
  Event event{Event::Kind::kNotice, now_ns(), rank};
  event.text = std::string("its replay did not print the same to ") + kStreamNames[stream] +
               " as the first time; what was printed first stands";
  feed(event);
}

// --------------------------------------------------------------------------------- standard input

bool Job::may_read_stdin() const {
  return input_pipe_.open() && input_.wants_more() && retry_stdin_at_ns_ == 0 &&
         !supervisor_.stopping();
}

void Job::read_stdin() {
  // In the background of a terminal reading is an error, as SIGTTIN is blocked: ask again later.
  char buffer[kReadBytes];
  const ssize_t got = read(0, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0 && errno == EIO) {
    retry_stdin_at_ns_ = now_ns() + kRetryStdinNs;
    return;
  }
  if (got > 0) {
    input_.append({buffer, static_cast<std::size_t>(got)});
  } else {
    input_.source_ended();
  }
  write_input();
}

void Job::write_input() {
  while (input_pipe_.open() && !input_.pending().empty()) {
    const ssize_t n = write(input_pipe_.get(), input_.pending().data(), input_.pending().size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      input_.reader_ended();
      break;
    }
    input_.given(static_cast<std::size_t>(n));
  }
  if (input_.finished()) input_pipe_.reset();
}

// --------------------------------------------------------------------------------------- of ftrun

void Job::write_outputs() {
  const int error = out_.write_some();
  err_.write_some();
  if (error == 0 || std::exchange(output_lost_, true)) return;
  Event event{Event::Kind::kOutputLost, now_ns()};
  event.code = error == EPIPE ? kExitSignal + SIGPIPE : kExitFailure;
  event.text = "standard output cannot be written: " + error_text(error) + "; ending all ranks";
  feed(event);
  run_queue();
}

// At the end: waits for whoever reads our output, but no longer than until the next signal.
void Job::flush_writers() {
  for (Writer* writer : {&out_, &err_}) {
    while (writer->write_some() == 0 && writer->waiting_bytes() > 0) {
      pollfd p[2] = {{writer->fd(), POLLOUT, 0}, {signals_.get(), POLLIN, 0}};
      signalfd_siginfo info;
      poll(p, 2, -1);
      const bool told =
          (p[1].revents & POLLIN) != 0 && read(signals_.get(), &info, sizeof info) > 0;
      if (told && info.ssi_signo != SIGCHLD) return;
    }
  }
}

std::string Job::expanded(const std::string& text) {
  return expand_sites(text, [this](std::uint32_t rank, std::uint32_t index, std::uint64_t place) {
    const engine::ModuleEntry* module = segment_.module(rank, index);
    return module == nullptr ? std::string("an unknown place")
                             : symbolizer_.describe(*module, place);
  });
}

void Job::tell(const std::string& text) { err_.queue() += "rejoin: " + expanded(text) + "\n"; }

void Job::log(const Record& record) {
  if (!events_.open()) return;
  Record line = record;
  line.text = expanded(line.text);
  if (line.position) {
    // Roughly: the death of a rank is not the time to read debug information.
    line.position->site = expand_sites(
        line.position->site, [this](std::uint32_t rank, std::uint32_t index, std::uint64_t place) {
          const engine::ModuleEntry* module = segment_.module(rank, index);
          return module == nullptr ? std::string() : rough_site(*module, place);
        });
  }
  const std::string json = to_json(line, start_wall_s_) + "\n";
  if (write(events_.get(), json.data(), json.size()) == static_cast<ssize_t>(json.size())) return;
  tell("--events " + plan_.options.events_path + ": " + error_text(errno) + "; no more events");
  events_.reset();
}

bool Job::keep_journal() {
  const std::string& directory = plan_.options.journal_directory;
  char name[64];
  snprintf(name, sizeof name, "rejoin-%016llx.journal", static_cast<unsigned long long>(plan_.job));
  const std::string path = (directory.empty() ? "." : directory) + "/" + name;
  guardian_->unlink_on_death(path);
  const auto kept = segment_.keep(path, [this] {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM) return true;
    }
    return false;
  });
  guardian_->unlink_on_death("");
  if (!kept.ok()) {
    tell(kept.error().text);
    return false;
  }
  tell("the journal is kept in " + path + " (" + size_text(kept.value()) +
       "); ftrun inspect prints it");
  return true;
}

}  // namespace rejoin::launcher
