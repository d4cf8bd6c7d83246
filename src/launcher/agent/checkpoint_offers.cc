#include "launcher/agent/checkpoint_offers.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

namespace rejoin::launcher {

CheckpointOffers::CheckpointOffers(Loop& loop, const HostPlan& plan, const JobSegment& segment,
                                   RankOutputs& outputs, const Reporter& reporter,
                                   std::function<void()> news)
    : loop_(loop), plan_(plan), outputs_(outputs), reporter_(reporter), news_(std::move(news)) {
  const std::string& directory = plan.options.checkpoint_directory;
  if (directory.empty() || !plan.is_whole_job()) return;
  writer_.emplace(segment, directory, owner_of(plan.options, plan.programs));
  watch_ =
      Loop::Watch(loop, writer_->descriptor(), EPOLLIN, [this](std::uint32_t) { report_news(); });
}

// A job that resumes from a version does not print again what was printed before it. Therefore that
// output is shown before the version can be in the directory.
void CheckpointOffers::offer(std::uint64_t version) {
  if (!writer_) return;
  for (const std::uint32_t r : plan_.local) outputs_.read_all(r);
  waiting_ = std::max(waiting_, version);
}

// The supervisor's idle() writes the output that was read before; it runs before the action that is
// posted here.
void CheckpointOffers::idle() {
  if (waiting_ == 0) return;
  loop_.post([this, version = std::exchange(waiting_, 0)] { writer_->offer(version); });
}

void CheckpointOffers::finish() {
  if (!writer_) return;
  writer_->finish();
  report_news();
}

void CheckpointOffers::report_news() {
  for (const std::string& line : writer_->news()) reporter_.tell(line);
  news_();
}

}  // namespace rejoin::launcher
