#include "process_image/mover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "libc_recording/observations.h"
#include "process_image/keeper.h"
#include "process_image/lifeline.h"
#include "process_image/obstacles.h"
#include "wire/socket.h"

namespace rejoin::process_image {

using wire::Message;
using wire::MessageType;

bool Mover::move(char* why, std::size_t size) {
  int news[2] = {-1, -1};
  if (impossible_ || pipe2(news, O_CLOEXEC) != 0) return say_cannot_move(why, size);
  const pid_t from = static_cast<pid_t>(syscall(SYS_getpid));
  const pid_t agent = agent_process();
  int error = 0;
  if (cloner_.clone(&error)) {
    go_on_as_rank(from, agent, news[1]);
    close(news[0]);
    close(news[1]);
    cost_.begin_request();  // by the clock of this process, which began with it
    cost_.begin_count();
    return true;
  }
  close(news[1]);
  if (error == 0) become_keeper_if(news[0]);
  close(news[0]);
  if (error == 0) {
    impossible_ = true;
    return say_cannot_move(why, size);
  }
  snprintf(why, size, "cannot be cloned (%s)", strerrordesc_np(error));
  return false;
}

// Called in the clone. A byte in `news` says that the clone asks the agent to be the rank from now
// on; `news` stays open until it is the rank.
void Mover::go_on_as_rank(pid_t from, pid_t agent, int news) {
  close(rank_.host().agent_socket());
  state_.begin_clone();
  hold_lifeline();
  cloner_.leave_helper();
  char why[160];
  if (syscall(SYS_getppid) != agent || !threads_.create(why, sizeof why) ||
      write(news, "", 1) != 1) {
    syscall(SYS_exit_group, 1);
  }
  const int socket = recovery::connect_as(MessageType::kMoves, static_cast<std::uint64_t>(from),
                                          rank_.incarnation());
  if (socket < 0 || !recovery::attach_again(socket)) syscall(SYS_exit_group, 1);
  libc_recording::move_observations();
  state_.restore_timers();
  rank_.host().tell(MessageType::kInitialized, 0, 0, nullptr, 0);
  if (rank_.is_replaying()) woken_();
}

void Mover::be_keeper_of_rank() {
  UnclonedState::stop_timers();
  be_keeper(rank_.host().agent_socket(), rank_.rank());
}

// Returns if the clone has ended without asking. If the clone has ended since then, the agent
// knows, or will soon, that no process is the rank, so this process must end, too.
void Mover::become_keeper_if(int news) {
  char asks;
  ssize_t n;
  while ((n = read(news, &asks, 1)) < 0 && errno == EINTR) {
  }
  if (n != 1) return;
  const int agent = rank_.host().agent_socket();
  pollfd both[2] = {{agent, POLLIN, 0}, {news, POLLIN, 0}};
  while (poll(both, 2, -1) < 0 && errno == EINTR) {
  }
  Message m;
  if (wire::receive_message(agent, m, nullptr, MSG_DONTWAIT) == wire::Received::kMessage &&
      m.type == MessageType::kStay) {
    threads_.end([](void* mover) { static_cast<Mover*>(mover)->be_keeper_of_rank(); }, this);
  }
  for (;;) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

}  // namespace rejoin::process_image
