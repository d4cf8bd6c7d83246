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
  // What --events names. Not open: `fifo`, of which nobody has opened the other end yet, is opened
  // when somebody does; without one nothing is kept.
  struct Target {
    Descriptor file;
    std::string fifo = {};
    bool terminal = false;  // standard output: whoever writes there takes the lines
  };
  // `sites` must live longer.
  EventLog(Target target, double start_wall_s, CallSites& sites);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Never waits. Nothing may be added after finish().
  void add(const Record& record);
  // Waits until everything is written, nothing can be written (nobody has opened a fifo), or
  // `enough()`, which is asked when `descriptor` can be read. -1: only for a moment.
  void finish(int descriptor, const std::function<bool()>& enough);
  // Of standard output: can be read when there are lines; those lines.
  int ready() const { return ready_.get(); }
  std::string take_lines();
  // Why a line could not be written, once; 0: they were. No more are written after it.
  int take_error();

 private:
  void run();
  int open_fifo();
  std::string to_line(Record& record);
  int write_line(const std::string& line);
  void end_thread();
  void give_up();

  Target target_;  // the thread's
  const double start_wall_s_;
  CallSites& sites_;
  Writer writer_;               // the thread's
  const Descriptor ready_;      // see above
  const Descriptor done_;       // can be read when the thread is over
  const Descriptor giving_up_;  // can be read when it shall not wait for a reader any more
  std::mutex mutex_;            // of what follows
  std::condition_variable wake_;
  std::deque<Record> queue_;
  std::string lines_;  // of standard output
  bool ending_ = false;
  bool failed_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace rejoin::launcher
