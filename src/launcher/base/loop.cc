#include "launcher/base/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

#include <algorithm>

#include "launcher/base/invariant.h"

namespace rejoin::launcher {

std::uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

Loop::Loop(std::uint64_t start_ns) : start_ns_(start_ns), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

std::uint64_t Loop::now_ns() const { return monotonic_ns() - start_ns_; }

// --- Descriptors

Loop::Watch::Watch(Loop& loop, int fd, std::uint32_t wanted, Handler handler, Turn turn)
    : loop_(&loop), id_(loop.next_id_++) {
  Watched watched{fd, wanted, false, false, turn, std::make_shared<Handler>(std::move(handler))};
  const auto [place, inserted] = loop.watched_.emplace(id_, std::move(watched));
  loop.apply(id_, place->second, EPOLL_CTL_ADD);
}

Loop::Watch& Loop::Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

void Loop::Watch::want(std::uint32_t wanted) {
  if (loop_ == nullptr) return;
  Watched& watched = loop_->watched_.at(id_);
  if (!watched.paused && watched.wanted == wanted) return;
  const int operation = watched.paused ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  watched.paused = false;
  watched.wanted = wanted;
  loop_->apply(id_, watched, operation);
}

void Loop::Watch::pause() {
  if (loop_ == nullptr) return;
  Watched& watched = loop_->watched_.at(id_);
  if (std::exchange(watched.paused, true)) return;
  loop_->apply(id_, watched, EPOLL_CTL_DEL);
}

void Loop::Watch::reset() {
  if (loop_ == nullptr) return;
  pause();
  loop_->watched_.erase(id_);
  loop_->files_.erase(id_);
  loop_ = nullptr;
}

void Loop::apply(std::uint64_t id, Watched& watched, int operation) {
  if (watched.always_ready) return;
  epoll_event event = {};
  event.events = watched.wanted;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), operation, watched.fd, &event) == 0) return;
  invariant(errno != EEXIST, "two watches of one descriptor");
  watched.always_ready = errno == EPERM && operation == EPOLL_CTL_ADD;
  if (watched.always_ready) files_.insert(id);
}

// --- Timers

void Loop::Timer::set(std::uint64_t at_ns) {
  clear();
  at_ns_ = std::max<std::uint64_t>(at_ns, 1);
  loop_.timers_.insert({at_ns_, this});
}

void Loop::Timer::clear() {
  if (at_ns_ != 0) loop_.timers_.erase({std::exchange(at_ns_, 0), this});
}

void Loop::run_timers() {
  const std::uint64_t now = now_ns();
  while (!timers_.empty() && timers_.begin()->first <= now && !stopped_) {
    Timer* timer = timers_.begin()->second;
    timer->clear();
    timer->action_();
    run_queue();
  }
}

// --- Turns

void Loop::run(const std::function<void()>& idle) {
  std::vector<epoll_event> ready;
  for (;;) {
    do {
      run_queue();
      if (stopped_) return;
      idle();
    } while (!queue_.empty());
    wait(ready);
    handle(ready, Turn::kFirst);
    handle(ready, Turn::kLast);
    run_timers();
  }
}

void Loop::run_queue() {
  while (!queue_.empty() && !stopped_) {
    const auto next = std::move(queue_.front());
    queue_.pop_front();
    next();
  }
}

void Loop::wait(std::vector<epoll_event>& ready) {
  ready.clear();
  for (const std::uint64_t id : files_) {
    const Watched& watched = watched_.at(id);
    if (watched.paused || watched.wanted == 0) continue;
    ready.push_back({});
    ready.back().events = watched.wanted;
    ready.back().data.u64 = id;
  }
  const std::size_t files = ready.size();
  int limit_ms = -1;
  if (files > 0) limit_ms = 0;
  if (files == 0 && !timers_.empty()) {
    const std::uint64_t now = now_ns(), deadline = timers_.begin()->first;
    const std::uint64_t left_ms = deadline > now ? (deadline - now + 999'999) / 1'000'000 : 0;
    limit_ms = static_cast<int>(std::min<std::uint64_t>(left_ms, 1'000'000));
  }
  ready.resize(files + watched_.size() + 1);
  const int got = epoll_wait(epoll_.get(), ready.data() + files,
                             static_cast<int>(ready.size() - files), limit_ms);
  ready.resize(files + static_cast<std::size_t>(std::max(got, 0)));
}

// A handler may end the watch of another ready descriptor, so each watch is looked up again.
void Loop::handle(const std::vector<epoll_event>& ready, Turn turn) {
  for (const epoll_event& event : ready) {
    const auto found = watched_.find(event.data.u64);
    if (found == watched_.end() || found->second.turn != turn || found->second.paused) continue;
    const std::shared_ptr<Handler> handler = found->second.handler;
    (*handler)(event.events);
    run_queue();
    if (stopped_) return;
  }
}

}  // namespace rejoin::launcher
