// What a host needs to go on elsewhere if it is lost: its part of the newest set (image_sets.h),
// which its partner, the agent of another host, holds in files. Parts travel between agents over
// connections of their own, in threads (part_connection.h).
//
//     request    Request{put}, files of the part          answer    a byte: it is whole
//     request    Request{get}                             answer    a byte: it is there; files
//
// A file is a FileHead, its name, its bytes; the last one is followed by a head without a name.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/agent/part_connection.h"
#include "launcher/base/file.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

class PartStore {
 public:
  using Identity = PartConnection::Identity;
  using Holder = PartConnection::Holder;
  struct Outcome {
    std::uint64_t set;
    std::string fault;  // why the part is not at the partner; empty: it is
    std::uint64_t bytes;
  };

  // `directory`: for the parts of others. It is made, and removed in the end.
  PartStore(Identity identity, std::string directory);
  PartStore(const PartStore&) = delete;
  PartStore& operator=(const PartStore&) = delete;
  ~PartStore();

  // Opens the port at which others give and fetch parts. `for_others`: also from other machines.
  // Errors: no port, the directory.
  std::optional<Error> listen(bool for_others);
  std::uint16_t port() const { return port_; }

  // Sends the files of the directory `path` to the partner, as this host's part of the set, and
  // removes them here. Returns false, and only removes them, if the former part is still being
  // sent.
  bool send(const Holder& partner, std::uint64_t set, const std::string& path);
  // The part that is being sent is not needed any more.
  void give_up();
  int descriptor() const { return done_.get(); }  // readable when there is an outcome
  std::optional<Outcome> outcome();
  // Removes parts of older sets than this one, which is committed, in the background.
  void forget_before(std::uint64_t set);

  // Fetches the part of this host from the one that holds it, to the directory `path`, which is
  // made. Errors: it cannot be reached, or has no such part.
  static std::optional<Error> fetch(const Identity& identity, const Holder& holder,
                                    std::uint64_t set, const std::string& path);

 private:
  // A connection of another agent, and the thread that serves it.
  struct Served {
    Descriptor fd;
    std::thread thread;
    bool is_over = false;
  };
  void accept_all();
  void remove_all();
  void begin_serving(Descriptor fd);
  void serve(int fd);
  void send_now(const Holder& partner, std::uint64_t set, const std::string& path);
  std::string path_of(std::uint32_t host, std::uint64_t set) const;

  const Identity identity_;
  const std::string directory_;
  Descriptor listener_;
  std::uint16_t port_ = 0;
  std::thread acceptor_;
  std::thread sender_;
  std::thread remover_;  // to remove large files takes long
  Descriptor done_;      // an eventfd
  std::mutex mutex_;     // of all that follow
  std::optional<Outcome> outcome_;
  bool sends_ = false;
  bool gives_up_ = false;
  int sending_to_ = -1;           // the connection
  std::condition_variable wake_;  // the remover
  std::uint64_t forgotten_before_ = 0;
  std::vector<std::string> unwanted_;  // directories to remove
  bool is_closing_ = false;
  std::list<Served> served_;
};

}  // namespace rejoin::launcher
