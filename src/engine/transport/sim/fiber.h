// A rank's flow of control in the simulator: a stack of its own, left and entered by plain function
// calls of one thread. Every change of stacks is announced to ASan.
#pragma once

#include <cstddef>
#include <vector>

namespace rejoin::engine {

class Fiber {
 public:
  using Body = void (*)(void* argument);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() begins body(argument) on an empty stack. The former contents are abandoned:
  // nothing is unwound, as after SIGKILL. `body` must not return. REQUIRES outside the fiber.
  void start(Body body, void* argument);

  // Runs the fiber until it suspends. REQUIRES outside any fiber.
  void resume();

  // The state from which resume() continues: the stack in use, and the place in it.
  struct Frozen {
    std::vector<std::byte> stack;
    void* inside;
  };
  // REQUIRES that the fiber has been started and is suspended.
  Frozen freeze() const;
  // The next resume() continues as the one after that freeze() did.
  void thaw(const Frozen& frozen);

  // Returns to where resume() was called. REQUIRES inside this fiber.
  void suspend();

 private:
  static void enter();
  void arrived();

  std::byte* stack_;  // kStackBytes, above a page that may not be touched
  void* inside_ = nullptr;
  void* outside_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  // Used only with sanitizers.
  const void* outer_stack_ = nullptr;
  std::size_t outer_bytes_ = 0;
};

}  // namespace rejoin::engine
