// What carries published words and bytes to other nodes, and those of other nodes here.
#pragma once

#include <cstdint>

namespace rejoin::journal {

// Used by the process of a rank, one thread at a time. Nothing blocks.
class Carrier {
 public:
  // Something was published that ranks of `node` read: sends it, as far as the connection has room.
  virtual void carry(std::uint32_t node) = 0;
  // Called now and then while the rank waits: does whatever there is to do for all nodes.
  virtual void look() = 0;
  // The rank's wait is over: gives up what look() holds.
  virtual void waited() = 0;
  // As waited(); the relay has to look until the rank is awake again.
  virtual void sleeps() = 0;
  // Gives up everything, so that an image of the process has none of it.
  virtual void let_go() = 0;

 protected:
  ~Carrier() = default;
};

}  // namespace rejoin::journal
