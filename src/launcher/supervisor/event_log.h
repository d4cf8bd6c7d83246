// The file of --events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "launcher/base/file.h"
#include "launcher/inspect/call_sites.h"
#include "launcher/output/writer.h"
#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

// A thread of its own writes it: to name a call site debug information is read, and no rank that is
// to be started again shall wait for that, nor for a reader of the file.
class EventLog {
 public:
  // Not open: nothing is kept. `sites` must live longer.
  EventLog(Descriptor file, double start_wall_s, CallSites& sites);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Never waits. Nothing may be added after finish().
  void add(const Record& record);
  // Waits until everything is written, nothing can be written, or `enough()`, which is asked when
  // `descriptor` can be read.
  void finish(int descriptor, const std::function<bool()>& enough);
  // Why a line could not be written, once; 0: they were. No more are written after it.
  int take_error();

 private:
  void run();
  std::string to_line(Record& record);
  int write_line(const std::string& line);
  void end_thread();
  void give_up();

  const Descriptor file_;
  const double start_wall_s_;
  CallSites& sites_;
  Writer writer_;               // the thread's
  const Descriptor done_;       // can be read when the thread is over
  const Descriptor giving_up_;  // can be read when it shall not wait for a reader any more
  std::mutex mutex_;            // of what follows
  std::condition_variable wake_;
  std::deque<Record> queue_;
  bool ending_ = false;
  bool failed_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace rejoin::launcher
