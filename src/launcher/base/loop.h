// The event loop of ftrun: descriptors, timers, and a queue of actions that callbacks post.
//
// Single-threaded. A callback may watch, unwatch and post. Posted actions run in the order of
// posting, each to its end, before the next descriptor is handled.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "launcher/base/file.h"

struct epoll_event;

namespace rejoin::launcher {

class Loop {
 public:
  // happened: the epoll events, for example EPOLLIN.
  using Handler = std::function<void(std::uint32_t happened)>;
  // kLast: after all others that are ready at the same time.
  enum class Turn { kFirst, kLast };

  // While a Watch exists, `handler` is called when a wanted event happens on the descriptor, which
  // must stay open.
  class Watch {
   public:
    Watch() = default;
    Watch(Loop& loop, int fd, std::uint32_t wanted, Handler handler, Turn turn = Turn::kFirst);
    Watch(Watch&& other) noexcept { *this = std::move(other); }
    Watch& operator=(Watch&& other) noexcept;
    ~Watch() { reset(); }
    // EPOLLIN, EPOLLOUT, or 0: only errors.
    void want(std::uint32_t wanted);
    // Calls nothing, not even for errors, until the next want().
    void pause();
    void reset();

   private:
    Loop* loop_ = nullptr;
    std::uint64_t id_ = 0;
  };

  // Calls `action` once, at or after the time that was set last.
  class Timer {
   public:
    Timer(Loop& loop, std::function<void()> action) : loop_(loop), action_(std::move(action)) {}
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer() { clear(); }
    void set(std::uint64_t at_ns);  // on Loop's clock
    void clear();
    bool is_set() const { return at_ns_ != 0; }

   private:
    friend class Loop;
    Loop& loop_;
    std::function<void()> action_;
    std::uint64_t at_ns_ = 0;
  };

  // `start_ns`: when the job began, on the monotonic clock.
  explicit Loop(std::uint64_t start_ns);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  std::uint64_t now_ns() const;  // since the job's start
  void post(std::function<void()> action) { queue_.push_back(std::move(action)); }
  // Runs until stop(). Calls `idle` whenever the queue is empty, before waiting.
  void run(const std::function<void()>& idle);
  void stop() { stopped_ = true; }

 private:
  struct Watched {
    int fd;
    std::uint32_t wanted;
    bool paused;
    bool always_ready;  // a regular file, which epoll does not support
    Turn turn;
    std::shared_ptr<Handler> handler;
  };

  void apply(std::uint64_t id, Watched& watched, int operation);
  void run_queue();
  void run_timers();
  void wait(std::vector<epoll_event>& ready);
  void handle(const std::vector<epoll_event>& ready, Turn turn);

  std::uint64_t start_ns_;
  Descriptor epoll_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Watched> watched_;
  std::set<std::uint64_t> files_;  // watches that are always ready
  std::set<std::pair<std::uint64_t, Timer*>> timers_;
  std::deque<std::function<void()>> queue_;
  bool stopped_ = false;
};

// On the monotonic clock.
std::uint64_t monotonic_ns();

}  // namespace rejoin::launcher
