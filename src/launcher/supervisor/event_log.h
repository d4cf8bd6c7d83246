// The file of --events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "launcher/base/file.h"
#include "launcher/base/record.h"
#include "launcher/output/writer.h"
#include "launcher/symbolizer/call_sites.h"

namespace rejoin::launcher {

// A thread of its own writes the log: naming call sites reads debug information, and restarts of
// ranks must not wait for that, nor for a reader of the file.
class EventLog {
 public:
  // What --events names. If `file` is not open, `fifo` is opened when a reader opens it. Without
  // file, fifo and terminal there is no log.
  struct Target {
    Descriptor file;
    std::string fifo = {};
    bool terminal = false;  // standard output: the caller fetches the lines and writes them
  };
  // `sites` must live longer.
  EventLog(Target target, double start_wall_s, CallSites& sites);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Never waits. Nothing may be added after finish().
  void add(const Record& record);
  // Waits until everything is written, nothing can be written (no reader has opened the fifo), or
  // enough() returns true, which is called when `descriptor` is readable. If that is -1, waits for
  // a moment only.
  void finish(int descriptor, const std::function<bool()>& enough);
  // Returns the target, with the fifo if it was opened. REQUIRES finish().
  Target take_target() { return std::move(target_); }
  // If `terminal`: a descriptor that is readable when there are lines, and those lines.
  int ready() const { return ready_.get(); }
  std::string take_lines();
  // Returns once the errno of a line that could not be written; 0: none. No line is written after
  // an error.
  int take_error();

 private:
  void run();
  int open_fifo();
  std::string to_line(Record& record);
  int write_line(const std::string& line);
  void end_thread();
  void give_up();

  Target target_;  // used by the thread only
  const double start_wall_s_;
  CallSites& sites_;
  Writer writer_;               // used by the thread only
  const Descriptor ready_;      // see ready()
  const Descriptor done_;       // readable when the thread is done
  const Descriptor giving_up_;  // readable when the thread must not wait for a reader any more
  std::mutex mutex_;            // protects the members below
  std::condition_variable wake_;
  std::deque<Record> queue_;
  std::string lines_;  // for take_lines()
  bool ending_ = false;
  bool failed_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace rejoin::launcher
