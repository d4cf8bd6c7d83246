#include "launcher/supervisor/event_log.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <utility>

#include "launcher/supervisor/events.h"

namespace rejoin::launcher {
namespace {

Descriptor open_event() { return Descriptor(eventfd(0, EFD_CLOEXEC)); }

}  // namespace

EventLog::EventLog(Descriptor file, double start_wall_s, CallSites& sites)
    : file_(std::move(file)),
      start_wall_s_(start_wall_s),
      sites_(sites),
      writer_(file_.get()),
      done_(open_event()),
      giving_up_(open_event()) {
  if (file_.open()) thread_ = std::thread([this] { run(); });
}

EventLog::~EventLog() {
  if (!thread_.joinable()) return;
  end_thread();
  give_up();
}

void EventLog::add(const Record& record) {
  if (!thread_.joinable()) return;
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  queue_.push_back(record);
  wake_.notify_one();
}

void EventLog::finish(int descriptor, const std::function<bool()>& enough) {
  if (!thread_.joinable()) return;
  end_thread();
  for (;;) {
    pollfd p[2] = {{done_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}};
    poll(p, 2, -1);
    if ((p[0].revents & POLLIN) != 0) break;
    if ((p[1].revents & POLLIN) != 0 && enough()) break;
  }
  give_up();
}

int EventLog::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, 0);
}

void EventLog::end_thread() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  wake_.notify_one();
}

// What is not written by now stays unwritten.
void EventLog::give_up() {
  eventfd_write(giving_up_.get(), 1);
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();
  }
  thread_.join();
}

void EventLog::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) break;
    Record record = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const int error = write_line(to_line(record));
    lock.lock();
    if (error == 0) continue;
    error_ = error;
    failed_ = true;
    queue_.clear();
  }
  eventfd_write(done_.get(), 1);
}

std::string EventLog::to_line(Record& record) {
  record.text = sites_.expanded(record.text);
  if (record.position) record.position->site = sites_.expanded(record.position->site);
  if (record.summary) {
    for (Summary::Place& place : record.summary->places) place.site = sites_.expanded(place.site);
  }
  return to_json(record, start_wall_s_) + "\n";
}

// 0, or why it cannot be written; it may have been given up.
int EventLog::write_line(const std::string& line) {
  writer_.queue() += line;
  for (;;) {
    const int error = writer_.write_some();
    if (error != 0 || writer_.waiting_bytes() == 0) return error;
    pollfd p[2] = {{file_.get(), POLLOUT, 0}, {giving_up_.get(), POLLIN, 0}};
    poll(p, 2, -1);
    if ((p[1].revents & POLLIN) != 0) return 0;
  }
}

}  // namespace rejoin::launcher
