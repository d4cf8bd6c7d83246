// A running job: the state that the driver's parts share.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/agent_socket.h"
#include "launcher/agent/checkpoint_files.h"
#include "launcher/agent/guardian.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/process.h"
#include "launcher/cli/options.h"
#include "launcher/inspect/symbolizer.h"
#include "launcher/output/input.h"
#include "launcher/output/output.h"
#include "launcher/output/writer.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::launcher {

// Everything that is decided before the first process starts.
struct JobPlan {
  RunOptions options;
  std::uint32_t ranks = 1;
  std::uint64_t job = 0;
  std::uint64_t limit_bytes = 0;
  std::uint32_t processors = 1;
  std::string path;  // of the program
  std::string socket;
  std::string secret;
  std::string library_directory;
  std::string lifeline;                                // Lifeline::path()
  std::vector<std::vector<std::string>> environments;  // by rank
  std::vector<cpu_set_t> bindings;                     // by rank; empty: none
};

// What ftrun changed for itself, as it was: ranks start with it.
struct Inherited {
  sigset_t signals;
  rlimit descriptors;
};

class Job {
 public:
  // `guardian` and `listener` are made by the caller, as early as they must be.
  Job(JobPlan plan, JobSegment segment, Descriptor listener, Descriptor events,
      std::unique_ptr<Guardian> guardian, const Inherited& inherited, std::uint64_t start_ns);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Starts all ranks and returns when none is left; the job's exit code.
  int run();

 private:
  // One incarnation of a rank, as far as descriptors go.
  struct RankIo {
    pid_t child = 0;
    bool child_reaped = true;
    bool dying = false;     // its tree is being killed
    bool killed = false;    // or has been
    Descriptor registered;  // pidfd of the registered process, if it is not the child
    pid_t registered_pid = 0;
    Descriptor output[2];  // read ends of its stdout and stderr
    OutputStream stream[2];
    // Printed when the program may have been dead already, by it or by a shell around it: if the
    // rank is started again it will be printed again, so it is shown only if it is not.
    std::string late[2];
    // When the newest bytes of an unfinished line were read; 0: there is none.
    std::uint64_t unfinished_since_ns[2] = {0, 0};
    std::uint64_t await_output_until_ns = 0;  // 0: the agent does not wait for its end
    std::uint64_t peak_bytes = 0;
  };
  struct Connection {
    Descriptor socket;
    pid_t pid = 0;
    Descriptor process;                 // pidfd
    std::optional<std::uint32_t> rank;  // once registered
    std::uint32_t incarnation = 0;
  };
  // What a descriptor in the poll set is for.
  struct Source {
    enum class Kind {
      kSignals,
      kListener,
      kConnection,
      kOutput,
      kRegistered,
      kStdin,
      kInput,
      kWriter,
      kCheckpoints
    };
    Kind kind;
    std::size_t index = 0;
    int stream = 0;
  };

  // job.cc: the loop, and what the cores want.
  void start_all();
  void wait();
  std::uint64_t next_deadline_ns() const;
  void on_deadlines();
  void dispatch(const Source& source, short happened);
  void feed(const AgentEvent& event);
  void feed(const Event& event);
  void run_queue();
  void carry_out(const AgentAction& action);
  void carry_out(const Action& action);
  void finish(int code);
  bool last_words();
  void tell_of_checkpoints();

  // job_processes.cc
  void spawn(std::uint32_t rank);
  void on_spawn_failed(std::uint32_t rank, const Spawned& spawned);
  void on_signals();
  void stop_and_continue();
  void reap_children();
  void on_registered_ended(std::uint32_t rank);
  void kill_tree(std::uint32_t rank);
  // Kills what is left of the trees that are dying; those that are gone are told to the agent.
  void sweep();
  void kill_leftovers();
  void signal_ranks(int signal);
  Cause complete(Cause cause, std::uint32_t rank);
  void print_where_all_stand(bool wait_for_it);
  std::optional<std::uint32_t> rank_of(pid_t pid) const;

  // job_messages.cc
  void accept_all();
  void read_connection(Connection& connection);
  void on_message(Connection& connection, const wire::Message& message);
  void answer(Connection& connection, const AgentAction& action);
  void on_first_message(Connection& connection, const wire::Message& message);
  void read_registered(std::uint32_t rank);
  void close_connections(std::uint32_t rank);

  // job_output.cc
  void mark_output(std::uint32_t rank, std::uint64_t value);
  // True if there was something to read.
  bool read_output(std::uint32_t rank, int stream, bool to_the_end);
  bool may_read_output(int stream) const;
  void drain_output(std::uint32_t rank);
  bool is_late(const RankIo& r, std::uint32_t rank) const;
  void show_late_output(std::uint32_t rank);
  void check_output_ended(std::uint32_t rank);
  void flush_output(std::uint32_t rank, int stream);
  void flush_stale_line(std::uint32_t rank, int stream);
  void tell_difference(std::uint32_t rank, int stream, bool ended);
  void read_stdin();
  void write_input();
  bool may_read_stdin() const;
  void write_outputs();
  void flush_writers();
  void tell(const std::string& text);
  void log(const Record& record);
  std::string expanded(const std::string& text);
  bool keep_journal();

  std::uint64_t now_ns() const;  // since the start

  JobPlan plan_;
  JobSegment segment_;
  Descriptor listener_;
  Descriptor events_;
  std::unique_ptr<CheckpointWriter> checkpoints_;  // --checkpoint-dir
  std::unique_ptr<Guardian> guardian_;
  Inherited inherited_;
  std::uint64_t start_ns_;
  double start_wall_s_;
  Descriptor signals_;
  SupervisorCore supervisor_;
  AgentCore agent_;
  std::deque<std::function<void()>> queue_;
  bool running_queue_ = false;

  std::vector<RankIo> ranks_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> polled_;
  std::vector<Source> sources_;
  Writer out_{1};
  Writer err_{2};
  bool output_lost_ = false;
  Input input_;
  Descriptor input_pipe_;  // write end of rank 0's standard input
  Symbolizer symbolizer_;
  std::vector<pid_t> helpers_;  // children that are no ranks
  std::uint64_t oom_kills_seen_;

  std::uint64_t timeout_at_ns_ = UINT64_MAX;
  std::uint64_t kill_at_ns_ = UINT64_MAX;  // end of the grace after SIGTERM
  std::uint64_t retry_stdin_at_ns_ = 0;
  bool last_words_said_ = false;
  bool finished_ = false;
  int exit_code_ = 0;
};

}  // namespace rejoin::launcher
