// Likely causes of a replay that differs: threads of the process, and the remedy.
#include "recovery/causes.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

namespace rejoin::test {
namespace {

std::string likely_cause() {
  char text[256];
  recovery::put_likely_cause(text, sizeof text);
  return text;
}

TEST(LikelyCause, OfOneThreadIsMemoryOrTheCycleCounter) {
  EXPECT_EQ(likely_cause(),
            "likely causes: uninitialised memory, or the processor's cycle counter (rdtsc)");
}

TEST(LikelyCause, OfSeveralThreadsIsTheirOrder) {
  std::atomic<bool> over = false;
  std::thread other([&] { over.wait(false); });
  const std::string of_threads = likely_cause();
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  // A sanitizer may have threads of its own.
  const auto threads = std::distance(begin(tasks), end(tasks));
  // Not closed, because libgomp would leak memory.
  const void* library = dlopen("libgomp.so.1", RTLD_NOW);
  const std::string of_library = likely_cause();
  over = true;
  over.notify_all();
  other.join();
  EXPECT_GE(threads, 2);
  EXPECT_NE(of_threads.find(std::to_string(threads) + " threads"), std::string::npos) << of_threads;
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(of_library.find("libgomp"), std::string::npos) << of_library;
  EXPECT_NE(of_library.find("OMP_NUM_THREADS=1"), std::string::npos) << of_library;
}

}  // namespace
}  // namespace rejoin::test
