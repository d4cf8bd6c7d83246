#include "launcher/supervisor/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <system_error>
#include <utility>

#include "launcher/supervisor/events.h"

namespace rejoin::launcher {
namespace {

constexpr int kShortMs = 200;  // enough for a file, which has no reader to wait for

Descriptor open_event() { return Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

}  // namespace

EventLog::EventLog(Target target, double start_wall_s, CallSites& sites)
    : target_(std::move(target)),
      start_wall_s_(start_wall_s),
      sites_(sites),
      writer_(target_.file.get()),
      ready_(open_event()),
      done_(open_event()),
      giving_up_(open_event()) {
  if (!target_.file.open() && target_.fifo.empty() && !target_.terminal) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    error_ = error.code().value();
  }
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
  pollfd done = {done_.get(), POLLIN, 0};
  poll(&done, 1, kShortMs);  // so a pending signal does not cut short the writing of a file
  while (descriptor >= 0) {
    pollfd p[2] = {{done_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}};
    poll(p, 2, -1);
    if ((p[0].revents & POLLIN) != 0) break;
    if ((p[1].revents & POLLIN) != 0 && enough()) break;
  }
  give_up();
}

std::string EventLog::take_lines() {
  eventfd_t ignored;
  eventfd_read(ready_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
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

// Drops all records that are not written yet, and ends the thread.
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
    const std::string line = to_line(record);
    int error = target_.file.open() || target_.terminal ? 0 : open_fifo();
    if (error == 0 && !target_.terminal) error = write_line(line);
    lock.lock();
    if (target_.terminal) {
      lines_ += line;
      eventfd_write(ready_.get(), 1);
    }
    if (error == 0) continue;
    error_ = error;
    failed_ = true;
    queue_.clear();
  }
  eventfd_write(done_.get(), 1);
}

// Opens the fifo once it has a reader. Returns ENXIO if it still has none when the job has ended.
int EventLog::open_fifo() {
  constexpr int kLookEveryMs = 50;
  for (;;) {
    target_.file =
        Descriptor(open(target_.fifo.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (target_.file.open()) {
      writer_ = Writer(target_.file.get());
      return 0;
    }
    if (errno != ENXIO) return errno;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return ENXIO;
    }
    pollfd p = {giving_up_.get(), POLLIN, 0};
    poll(&p, 1, kLookEveryMs);
  }
}

std::string EventLog::to_line(Record& record) {
  record.text = sites_.expanded(record.text);
  if (record.position) record.position->site = sites_.expanded(record.position->site);
  record.fault.site = sites_.expanded(record.fault.site);
  for (std::string& frame : record.fault.stack) frame = sites_.expanded(frame);
  if (record.summary) {
    for (Summary::Place& place : record.summary->places) place.site = sites_.expanded(place.site);
  }
  return to_json(record, start_wall_s_) + "\n";
}

// Returns 0, also after give_up(), or the errno for which the line cannot be written.
int EventLog::write_line(const std::string& line) {
  writer_.queue() += line;
  for (;;) {
    const int error = writer_.write_some();
    if (error != 0 || writer_.waiting_bytes() == 0) return error;
    pollfd p[2] = {{target_.file.get(), POLLOUT, 0}, {giving_up_.get(), POLLIN, 0}};
    poll(p, 2, -1);
    if ((p[1].revents & POLLIN) != 0) return 0;
  }
}

}  // namespace rejoin::launcher
