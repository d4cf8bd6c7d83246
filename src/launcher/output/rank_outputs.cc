#include "launcher/output/rank_outputs.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "wire/messages.h"

namespace rejoin::launcher {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// An unfinished line is shown when the rank has printed nothing more for this time.
constexpr std::uint64_t kUnfinishedLineNs = 250'000'000;
// How long processes that a rank left in the background may still print. They end with the job.
constexpr std::uint64_t kLingerNs = 2'000'000'000;

std::string tag_of(const OutputOptions& options, std::uint32_t rank, int stream) {
  std::string tag;
  if (options.timed) {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    tm local = {};
    char text[64] = "";
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&now.tv_sec, &local));
    const std::string milliseconds = std::to_string(1000 + now.tv_nsec / 1'000'000);
    tag = std::string(text) + "." + milliseconds.substr(1) + " ";
  }
  if (options.tagged) {
    tag += "[" + std::to_string(rank) + (stream == 0 ? "]<stdout>: " : "]<stderr>: ");
  }
  return tag;
}

}  // namespace

RankOutputs::RankOutputs(Loop& loop, std::uint32_t ranks, const OutputOptions& options, Calls calls)
    : loop_(loop), options_(options), calls_(std::move(calls)) {
  if (!options.directory.empty()) files_.emplace(options.directory);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    ranks_.push_back(std::make_unique<Rank>(loop, [this, r] { check_ended(r, true); }));
    for (int s = 0; s < 2; ++s) {
      ranks_[r]->stream[s] =
          std::make_unique<Stream>(loop, [this, r, s] { show_stale_line(r, s); });
      if (options.tagged || options.timed) {
        at(r, s).lines = OutputStream([this, r, s] { return tag_of(options_, r, s); });
      }
      if (files_ || calls_.keeps_raw) at(r, s).lines.keep_raw();
    }
  }
}

void RankOutputs::open(std::uint32_t rank, Descriptor out, Descriptor err) {
  ranks_[rank]->linger.clear();
  Descriptor* pipes[] = {&out, &err};
  for (int s = 0; s < 2; ++s) {
    Stream& stream = at(rank, s);
    stream.watch.reset();
    stream.pipe = std::move(*pipes[s]);
    stream.lines.restart();
    stream.stale.clear();
    stream.watch = Loop::Watch(loop_, stream.pipe.get(), EPOLLIN,
                               [this, rank, s](std::uint32_t) { read(rank, s, false); });
    if (held_[s] != 0) stream.watch.pause();
  }
}

bool RankOutputs::read(std::uint32_t rank, int s, bool to_the_end) {
  Stream& stream = at(rank, s);
  bool something = false;
  std::string shown;
  char buffer[kReadBytes];
  while (stream.pipe.open()) {
    const ssize_t got = ::read(stream.pipe.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      stream.watch.reset();
      stream.pipe.reset();
      check_ended(rank, false);
      break;
    }
    something = true;
    const std::string_view bytes(buffer, static_cast<std::size_t>(got));
    if (calls_.is_late(rank)) {
      stream.late += bytes;
    } else {
      stream.lines.feed(bytes, shown);
    }
    if (!to_the_end) break;
  }
  tell_void(rank, s, false);
  show(rank, s, std::move(shown));
  tell_difference(rank, s, false);
  if (!stream.lines.has_unfinished_line()) {
    stream.stale.clear();
  } else if (something) {
    stream.stale.set(loop_.now_ns() + kUnfinishedLineNs);
  }
  return something;
}

// Does not show the line if its end may already be in the pipe.
void RankOutputs::show_stale_line(std::uint32_t rank, int s) {
  if (held_[s] != 0 || (options_.commits && calls_.may_be_void())) {
    at(rank, s).stale.set(loop_.now_ns() + kUnfinishedLineNs);
  } else if (!read(rank, s, false)) {
    flush(rank, s);
  }
}

void RankOutputs::flush(std::uint32_t rank, int s) {
  std::string shown;
  at(rank, s).lines.flush(shown);
  at(rank, s).stale.clear();
  tell_void(rank, s, false);
  show(rank, s, std::move(shown));
}

// Closes the pipes here, because a process that left the rank's tree may hold them open.
void RankOutputs::drain(std::uint32_t rank) {
  for (int s = 0; s < 2; ++s) {
    read(rank, s, true);
    at(rank, s).watch.reset();
    at(rank, s).pipe.reset();
  }
}

void RankOutputs::read_all(std::uint32_t rank) {
  for (int s = 0; s < 2; ++s) read(rank, s, true);
}

Descriptor RankOutputs::take_pipe(std::uint32_t rank, int s) {
  at(rank, s).watch.reset();
  return std::move(at(rank, s).pipe);
}

void RankOutputs::await_end(std::uint32_t rank) {
  ranks_[rank]->linger.set(loop_.now_ns() + kLingerNs);
  check_ended(rank, false);
}

void RankOutputs::check_ended(std::uint32_t rank, bool too_long) {
  const bool closed = !at(rank, 0).pipe.open() && !at(rank, 1).pipe.open();
  if (!too_long && (!closed || !ranks_[rank]->linger.is_set())) return;
  ranks_[rank]->linger.clear();
  calls_.ended(rank);
}

bool RankOutputs::mark(std::uint32_t rank, std::uint64_t value) {
  for (int s = 0; s < 2; ++s) read(rank, s, true);
  const bool of_image = (value & wire::kMarkOfImage) != 0;
  const bool replays = at(rank, 0).lines.replays() || at(rank, 1).lines.replays();
  if (of_image && replays) return false;
  for (int s = 0; s < 2; ++s) {
    std::string shown;
    if (of_image) {
      at(rank, s).lines.mark(value, shown);
    } else if (value % 2 == 0) {
      at(rank, s).lines.mark(value / 2, shown);
    } else {
      at(rank, s).lines.jump(value / 2);
    }
    show(rank, s, std::move(shown));
  }
  return true;
}

void RankOutputs::keep(std::uint32_t rank, std::uint64_t value) {
  for (int s = 0; s < 2; ++s) at(rank, s).lines.keep(value);
  if (options_.commits) show_withheld(rank, value);
}

void RankOutputs::jump(std::uint32_t rank, std::uint64_t value) {
  for (int s = 0; s < 2; ++s) at(rank, s).lines.jump(value);
}

void RankOutputs::resume(std::uint32_t rank, std::uint64_t value, const std::string (&printed)[2]) {
  mark(rank, value);
  keep(rank, value);
  for (int s = 0; s < 2; ++s) {
    std::string shown;
    at(rank, s).lines.feed(printed[s], shown);
    at(rank, s).lines.flush(shown);
    at(rank, s).lines.take_raw();
  }
  make_void(rank, value);
}

void RankOutputs::make_void(std::uint32_t rank, std::uint64_t value) {
  forget_late(rank);
  for (int s = 0; s < 2; ++s) {
    const std::uint64_t end = at(rank, s).lines.bytes_before(value);
    std::erase_if(withheld_, [&](const Shown& shown) {
      return shown.rank == rank && shown.stream == s && shown.end > end;
    });
    at(rank, s).lines.go_back(value, !options_.commits);
  }
}

// Shows what the rank has printed before this mark.
void RankOutputs::show_withheld(std::uint32_t rank, std::uint64_t value) {
  std::deque<Shown> left;
  for (Shown& shown : std::exchange(withheld_, {})) {
    const bool before = shown.end <= at(shown.rank, shown.stream).lines.bytes_before(value);
    if (shown.rank == rank && before) {
      pass_on(shown);
    } else {
      left.push_back(std::move(shown));
    }
  }
  withheld_ = std::move(left);
}

void RankOutputs::show_withheld() {
  if (withheld_.empty() || calls_.may_be_void()) return;
  for (const Shown& shown : std::exchange(withheld_, {})) pass_on(shown);
}

void RankOutputs::hold(int to, bool hold) {
  for (int s = 0; s < 2; ++s) {
    if (s == to || options_.merged) hold_stream(s, kReader, hold);
  }
}

void RankOutputs::hold_all(bool hold) {
  for (int s = 0; s < 2; ++s) hold_stream(s, kConnection, hold);
}

void RankOutputs::hold_stream(int s, Holder by, bool holds) {
  held_[s] = holds ? held_[s] | by : held_[s] & ~by;
  const bool hold = held_[s] != 0;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (hold) {
      at(r, s).watch.pause();
    } else {
      at(r, s).watch.want(EPOLLIN);
    }
  }
}

void RankOutputs::show_late(std::uint32_t rank) {
  for (int s = 0; s < 2; ++s) {
    std::string shown;
    at(rank, s).lines.feed(std::exchange(at(rank, s).late, {}), shown);
    show(rank, s, std::move(shown));
  }
}

void RankOutputs::forget_late(std::uint32_t rank) {
  for (int s = 0; s < 2; ++s) at(rank, s).late.clear();
}

void RankOutputs::finish(bool check) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    show_late(r);
    for (int s = 0; s < 2; ++s) {
      flush(r, s);
      tell_void(r, s, true);
      if (check) tell_difference(r, s, true);
    }
  }
  for (const Shown& shown : std::exchange(withheld_, {})) pass_on(shown);
}

void RankOutputs::tell_difference(std::uint32_t rank, int s, bool ended) {
  if (at(rank, s).lines.take_difference(ended)) calls_.differs(rank, s);
}

void RankOutputs::tell_void(std::uint32_t rank, int s, bool ended) {
  const std::uint64_t lines = at(rank, s).lines.take_void_lines(ended);
  if (lines != 0) calls_.is_void(rank, s, lines);
}

// With tags, a line never begins inside another rank's line. Files have no tags.
void RankOutputs::show(std::uint32_t rank, int stream, std::string bytes) {
  if (bytes.empty()) return;
  OutputStream& mine = at(rank, stream).lines;
  const Shown shown = {rank, stream, mine.shown_bytes(), std::move(bytes), mine.take_raw()};
  if (options_.commits && calls_.may_be_void()) {
    withheld_.push_back(shown);
  } else {
    show_withheld();
    pass_on(shown);
  }
}

void RankOutputs::pass_on(const Shown& shown) {
  const auto& [rank, stream, end, printed, raw] = shown;
  if (files_) {
    if (const int error = files_->write(rank, stream, raw)) calls_.lost(rank, error);
  }
  const Printed of = {rank, stream, end - std::min<std::uint64_t>(end, raw.size()), raw};
  if (!options_.shown) {
    if (calls_.keeps_raw) calls_.show(stream, {}, of);
    return;
  }
  OutputStream& mine = at(rank, stream).lines;
  std::string bytes = printed;
  const int to = options_.merged ? 0 : stream;
  OutputStream*& unfinished = unfinished_[to];
  const bool finished = bytes.back() == '\n';
  if ((options_.tagged || options_.timed) && unfinished != nullptr && unfinished != &mine) {
    unfinished->interrupted();
    bytes.insert(0, 1, '\n');
  }
  unfinished = finished ? nullptr : &mine;
  calls_.show(to, std::move(bytes), of);
}

}  // namespace rejoin::launcher
