// Descriptors through which a process talks to itself: pipes and socket pairs of which it has both
// ends, counters (eventfd), timers (timerfd), signals (signalfd), sets of descriptors (epoll), and
// sockets that are connected to nothing. Interpreters and libraries have them for their own
// threads.
//
// An image must not share them with the process that it was cloned from, which goes on reading and
// writing. What they contain is therefore noted when the image is made, without reading it; the
// image does not get them; and a clone that is woken makes new ones, with the same numbers and
// contents. The image has /dev/null in their places, so that their numbers stay taken.
//
// Not restored: the owner of a descriptor's signals (F_SETOWN), options of sockets, more than one
// expiry of a timer that was not read, and what an edge-triggered set has reported already: it
// reports what is ready once more.
#pragma once

#include <sys/epoll.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "journal/arena.h"

namespace rejoin::process_image {

class OwnChannels {
 public:
  explicit OwnChannels(journal::Arena& arena) : arena_(arena) {}
  OwnChannels(const OwnChannels&) = delete;
  OwnChannels& operator=(const OwnChannels&) = delete;

  // Notes what is open now: begin(), then add() for each descriptor that may be one of these, then
  // complete(). No other thread may run meanwhile. add() returns whether it is one.
  void begin();
  bool add(int fd, const struct stat& found);
  // False: one of them cannot be restored; `why` is the predicate of a sentence about this process.
  bool complete(char* why, std::size_t size);

  // Gives them up, in a process that shares this one's memory and clones itself to be the image.
  // Makes system calls only.
  void release() const;
  // Called in a woken clone, when all other files are open. False: `why` becomes a sentence.
  bool restore(char* why, std::size_t size) const;

 private:
  enum class Kind : std::uint8_t { kPipe, kPair, kIdleSocket, kCounter, kTimer, kSignals, kSet };
  struct Registration {  // of a descriptor in an epoll set
    int fd;
    epoll_event event;
  };
  struct Channel {
    int fd;
    Kind kind;
    std::uint64_t number;  // of the inode; those of anonymous inodes are the same
    int flags;             // F_GETFL
    bool inherited;        // stays open over exec
    int same_as;           // index of a descriptor of the same open file; -1: none
    int other_end;         // index; -1: none
    // Pipes and pairs: what can be read here.
    std::byte* contents;
    std::uint32_t bytes;
    std::uint32_t room;                     // of a pipe
    int domain, type, protocol, shut_down;  // sockets
    std::uint64_t value;                    // counters: the count; signals: the mask
    bool semaphore;                         // counters
    int clock;                              // timers
    std::uint64_t ticks, value_ns, interval_ns;
    Registration* registrations;  // sets
    std::uint32_t registered;
  };

  Channel* append();
  bool note(Channel& c, char* why, std::size_t size);
  bool note_pipe(Channel& c);
  bool note_socket(Channel& c);
  static bool note_counter(Channel& c, const char* info);
  static bool note_timer(Channel& c, const char* info);
  bool note_set(Channel& c, const char* info, char* why, std::size_t size);
  static bool peek(Channel& c);
  bool find_same(std::size_t index);
  int find_socket(std::uint64_t number) const;
  void forget();

  bool make(std::size_t index) const;
  bool make_pipe(const Channel& c) const;
  bool make_pair(const Channel& c) const;
  static bool take_number(const Channel& c, int made);
  bool fill_sets() const;

  journal::Arena& arena_;
  Channel* channels_ = nullptr;
  std::size_t count_ = 0;
  std::size_t room_ = 0;
  bool no_memory_ = false;
};

}  // namespace rejoin::process_image
