// Messages and descriptors over a pair of sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>

#include "wire/socket.h"

namespace rejoin::wire {
namespace {

class WireSocket : public testing::Test {
 protected:
  WireSocket() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0); }
  ~WireSocket() override {
    for (const int fd : ends_) close(fd);
  }

  static Message message(const std::string& text) {
    Message m;
    begin_message(m, MessageType::kNotice, 3);
    m.value = 7;
    set_text(m, text.data(), text.size());
    return m;
  }
  static ino_t file_of(int fd) {
    struct stat info = {};
    EXPECT_EQ(fstat(fd, &info), 0);
    return info.st_ino;
  }
  static std::size_t open_descriptors() {
    std::size_t open = 0;
    for (int fd = 0; fd < 256; ++fd) open += fcntl(fd, F_GETFD) >= 0;
    return open;
  }

  int ends_[2];
  Message got_;
};

TEST_F(WireSocket, TheMessageArrivesAsItWasSent) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{kMaxText}}) {
    const std::string text(bytes, 'x');
    ASSERT_TRUE(send_message(ends_[0], message(text)));
    ASSERT_EQ(receive_message(ends_[1], got_), Received::kMessage);
    EXPECT_EQ(got_.type, MessageType::kNotice);
    EXPECT_EQ(got_.rank, 3u);
    EXPECT_EQ(got_.value, 7u);
    EXPECT_EQ(got_.code, 0);
    EXPECT_EQ(std::string(got_.text, got_.text_bytes), text);
  }
}

TEST_F(WireSocket, ATextThatIsTooLongIsTruncated) {
  ASSERT_TRUE(send_message(ends_[0], message(std::string(kMaxText + 1, 'x'))));
  ASSERT_EQ(receive_message(ends_[1], got_), Received::kMessage);
  EXPECT_EQ(got_.text_bytes, kMaxText);
}

TEST_F(WireSocket, DescriptorsArriveInOrderAndAreClosedOnExec) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const Descriptors sent = {3, {pipe_ends[0], ends_[0], pipe_ends[1]}};
  ASSERT_TRUE(send_message(ends_[0], message("three"), sent));
  Descriptors received;
  ASSERT_EQ(receive_message(ends_[1], got_, &received), Received::kMessage);
  ASSERT_EQ(received.count, 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file_of(received.fd[i]), file_of(sent.fd[i]));
    EXPECT_EQ(fcntl(received.fd[i], F_GETFD), FD_CLOEXEC);
    close(received.fd[i]);
  }
  for (const int fd : pipe_ends) close(fd);
}

TEST_F(WireSocket, DescriptorsThatAreNotWantedAreClosed) {
  const std::size_t before = open_descriptors();
  ASSERT_TRUE(send_message(ends_[0], message("one"), {1, {ends_[0]}}));
  ASSERT_EQ(receive_message(ends_[1], got_), Received::kMessage);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(WireSocket, AMalformedMessageIsTheEnd) {
  const std::size_t before = open_descriptors();
  Message m = message("text");
  m.text_bytes = 5;  // space for one more than is sent
  ASSERT_TRUE(send_datagram(ends_[0], &m, kMessageHeadBytes + 4, {1, {ends_[0]}}));
  Descriptors with;
  EXPECT_EQ(receive_message(ends_[1], got_, &with), Received::kEnd);
  EXPECT_EQ(open_descriptors(), before);
  ASSERT_TRUE(send_datagram(ends_[0], &m, kMessageHeadBytes - 1));
  EXPECT_EQ(receive_message(ends_[1], got_), Received::kEnd);
  const std::string large(sizeof(Message) + 100, 'x');
  ASSERT_TRUE(send_datagram(ends_[0], large.data(), large.size()));
  EXPECT_EQ(receive_message(ends_[1], got_), Received::kEnd);
}

TEST_F(WireSocket, NothingToReadAndTheEndAreDistinguished) {
  EXPECT_EQ(receive_message(ends_[1], got_, nullptr, MSG_DONTWAIT), Received::kNothing);
  shutdown(ends_[0], SHUT_WR);
  EXPECT_EQ(receive_message(ends_[1], got_, nullptr, MSG_DONTWAIT), Received::kEnd);
  close(ends_[1]);
  EXPECT_FALSE(send_message(ends_[0], message("to a closed end")));
  ends_[1] = dup(ends_[0]);
}

}  // namespace
}  // namespace rejoin::wire
