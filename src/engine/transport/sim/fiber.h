// A rank's flow of control in the simulator: a stack of its own, left and entered by plain function
// calls of one thread. ASan is told of every change of stacks.
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

  // The next resume() begins body(argument) on an empty stack. What ran here before is abandoned as
  // it stands: nothing is unwound, as after SIGKILL. `body` must not return. REQUIRES outside the
  // fiber.
  void start(Body body, void* argument);

  // Runs the fiber until it suspends. REQUIRES outside any fiber.
  void resume();

  // What resume() goes on with: the stack in use, and where in it.
  struct Frozen {
    std::vector<std::byte> stack;
    void* inside;
  };
  // REQUIRES that it has been started and is suspended.
  Frozen freeze() const;
  // The next resume() goes on as the one behind that freeze() did.
  void thaw(const Frozen& frozen);

  // Goes back to where resume() was called. REQUIRES inside this fiber.
  void suspend();

 private:
  static void enter();
  void arrived();

  std::byte* stack_;  // kStackBytes, above a page that may not be touched
  void* inside_ = nullptr;
  void* outside_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  // For the sanitizers alone.
  const void* outer_stack_ = nullptr;
  std::size_t outer_bytes_ = 0;
};

}  // namespace rejoin::engine
