#include "launcher/agent/position_reports.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "launcher/agent/standing.h"

namespace rejoin::launcher {

std::string PositionReports::where(std::uint32_t rank) {
  const Position p = segment_.position(rank);
  std::string text = to_text(p);
  const auto describe = [this](std::uint32_t r, std::uint32_t index, std::uint64_t place) {
    const journal::ModuleEntry* module = segment_.module(r, index);
    return module == nullptr ? std::string("an unknown place")
                             : symbolizer_.describe(*module, place);
  };
  if (!p.site.empty()) text += " at " + expand_sites(p.site, describe);
  const bool between_two = p.ordinal > 0 && p.context == 0;  // in no operation of a communicator
  const std::string what = between_two && p.inside ? segment_.waits_for(rank) : "";
  if (!what.empty()) text += ", waits for " + what;
  if (p.ordinal > 0 && !between_two) {
    text += ", seq " + std::to_string(p.sequence) + " of " + communicator_text(p.context, rank);
  }
  if (core_.incarnation(rank) > 0) {
    text += ", incarnation " + std::to_string(core_.incarnation(rank));
    text += p.live ? "" : ", catching up";
  }
  return text;
}

StoodOnHost PositionReports::find_ranks(bool awaited) {
  StoodOnHost found;
  found.awaited = awaited;
  found.images = plan_.options.snapshots.on();
  for (const std::uint32_t r : plan_.local) {
    Stood& s = found.ranks.emplace_back();
    s.rank = r;
    s.pid = processes_.pid_of(r);
    s.where = where(r);
    s.over = protection_.has_finalized(r);
    if (core_.has_image(r)) s.image_age_ns = protection_.image_age_ns(r);
  }
  return found;
}

// A child finds out, because it takes seconds, and sends the report as bytes.
void PositionReports::report(bool awaited) {
  StoodOnHost found = find_ranks(awaited);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return reporter_.send(to_report(found));
  Descriptor ours(ends[0]), theirs(ends[1]);
  pid_t child;
  {
    const Symbolizer::Turn turn;
    child = fork();
  }
  if (child < 0) return reporter_.send(to_report(found));
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &settings_.signals, nullptr);
    find_stacks(found, [this](std::uint32_t rank) { return where(rank); });
    const std::string bytes = to_report(found).SerializeAsString();
    write_all(theirs.get(), bytes.data(), bytes.size());
    _exit(0);
  }
  processes_.add_helper(child);
  const int fd = ours.get();
  reports_[fd] = {std::move(ours), awaited, {}, {}};
  theirs.reset();
  if (awaited) {
    while (read_report(fd)) {
    }
    return;
  }
  reports_[fd].watch =
      Loop::Watch(loop_, fd, EPOLLIN, [this, fd](std::uint32_t) { read_report(fd); });
}

// Returns whether more may come.
bool PositionReports::read_report(int fd) {
  Incomplete& incomplete = reports_.at(fd);
  char buffer[16 * 1024];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return true;
  if (n > 0) {
    incomplete.bytes.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  Report report;
  const bool whole = report.ParseFromString(incomplete.bytes) && report.has_standing();
  if (!whole) {  // the child was killed
    StoodOnHost nothing;
    nothing.awaited = incomplete.awaited;
    report = to_report(nothing);
  }
  reports_.erase(fd);
  reporter_.send(std::move(report));
  return false;
}

}  // namespace rejoin::launcher
