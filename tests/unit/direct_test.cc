// Reading the sender's buffer in its process: what counts as a read, and what does not.
// recovery/DIRECT.md; tests/sim has the protocol.
#include "journal/direct.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "engine/transport/shm/host.h"

namespace rejoin {
namespace {

using engine::ShmHost;

constexpr std::size_t kBytes = journal::DirectRead<ShmHost>::kMost;

class Direct : public testing::Test {
 protected:
  Direct() : bytes_(journal::segment_bytes_for(2, 0)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(p);
    journal::format_segment(base_, 2, 1, 0, 2);
  }
  ~Direct() override {
    end_sender();
    munmap(base_, bytes_);
  }

  // Starts a process that opens a buffer of bytes `value`, and lives on.
  void start_sender(int value) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    sender_ = fork();
    if (sender_ == 0) {
      std::vector<std::byte> data(kBytes, static_cast<std::byte>(value));
      ShmHost host(base_, 0, -1);
      const std::uint32_t reader = 1;
      const journal::OpenBuffer<ShmHost> open(host, &reader, 1, kMessage, data.data());
      if (write(ends[1], "", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char told;
    ASSERT_EQ(read(ends[0], &told, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  void end_sender() {
    if (sender_ <= 0) return;
    kill(sender_, SIGKILL);
    waitpid(sender_, nullptr, 0);
    sender_ = -1;
  }
  bool reads(std::size_t begin, std::size_t end) {
    ShmHost host(base_, 1, -1);
    const journal::PeerView peers(base_);
    journal::DirectRead<ShmHost> direct(host, peers);
    const bool read = direct.read(0, kMessage, to_.data(), begin, end, [] { return true; });
    EXPECT_EQ(journal::control_of(base_, 1)->reads.load(),
              read ? journal::has_read(peers.opened_check(0)) : 0u);
    return read;
  }

  static constexpr journal::Offset kMessage = 4712;
  std::size_t bytes_;
  std::byte* base_;
  pid_t sender_ = -1;
  std::vector<std::byte> to_ = std::vector<std::byte>(kBytes);
};

TEST_F(Direct, ReadsWhatIsAskedFor) {
  start_sender(7);
  ASSERT_TRUE(reads(1000, kBytes - 1000));
  for (std::size_t i = 0; i < kBytes; ++i) {
    const bool is_asked_for = i >= 1000 && i < kBytes - 1000;
    ASSERT_EQ(to_[i], static_cast<std::byte>(is_asked_for ? 7 : 0)) << i;
  }
}

TEST_F(Direct, NothingIsReadWithoutAnOpenBuffer) { EXPECT_FALSE(reads(0, 1000)); }

TEST_F(Direct, AProcessThatHasEndedIsNotRead) {
  start_sender(7);
  end_sender();
  EXPECT_FALSE(reads(0, 1000));
}

// As if the number of the process had been given to another one since.
TEST_F(Direct, AnotherProcessIsNotRead) {
  start_sender(7);
  auto& check = journal::control_of(base_, 0)->opened.check;
  check.store(journal::kVacantStores, journal::Step::kSame, check.load() + 1);
  EXPECT_FALSE(reads(0, 1000));
}

TEST_F(Direct, ADeathClosesBoth) {
  start_sender(7);
  auto& reads_now = journal::control_of(base_, 0)->reads;
  reads_now.store(journal::kVacantStores, journal::Step::kSame, kMessage);
  journal::publish_death(base_, 0);
  EXPECT_EQ(reads_now.load(), 0u);
  EXPECT_FALSE(reads(0, 1000));
}

}  // namespace
}  // namespace rejoin
