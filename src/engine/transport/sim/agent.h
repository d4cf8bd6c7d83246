// The interface of the agent that starts the processes of a simulated job, receives their messages
// and is notified when they end. The simulation calls it outside fibers but for on_message(); it
// acts through the Simulation's members for agents. The engine knows no policy: tests/sim/agent.h
// joins this to the launcher's cores.
#pragma once

#include <cstdint>
#include <string>

#include "wire/messages.h"

namespace rejoin::engine {

class Simulation;

struct SimMessage {
  wire::MessageType type;
  std::int32_t code = 0;
  std::uint64_t value = 0;
  std::string text = {};
};

// How a process ended: by a signal, or (signal 0) with an exit code.
struct SimEnd {
  int signal = 0;
  int code = 0;
};

// A process is named by the number that Simulation::start() has given it.
class SimAgent {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  virtual ~SimAgent() = default;
  virtual void begin(Simulation& simulation) = 0;  // of a run: no process runs
  // The time from which it has something to do; kNever: it waits for processes.
  virtual std::uint64_t due() const = 0;
  // Does one thing that others can see. REQUIRES that due() is not kNever; when no process can do
  // anything, it is called before its time.
  virtual void turn() = 0;
  virtual void on_message(std::uint32_t process, const SimMessage& message) = 0;
  virtual void on_end(std::uint32_t process, const SimEnd& end) = 0;
  // on_image: there is an image of a rank's process, named by its number in the simulation;
  // on_image_end: it has ended.
  virtual void on_image(std::uint32_t image, std::uint32_t rank, std::uint64_t number,
                        std::uint32_t incarnation) = 0;
  virtual void on_image_end(std::uint32_t image) = 0;
};

}  // namespace rejoin::engine
