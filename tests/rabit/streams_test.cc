#include <gtest/gtest.h>
#include <rabit/rabit.h>
#include <rabit/timer.h>

#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace {

using rabit::utils::MemoryBufferStream;
using rabit::utils::MemoryFixSizeBuffer;

template <typename T>
void expect_same_after_round_trip(const T& value) {
  std::string bytes;
  MemoryBufferStream out(&bytes);
  out.Write(value);
  out.Write(std::uint16_t{0xabcd});
  MemoryBufferStream in(&bytes);
  T got{};
  ASSERT_TRUE(in.Read(&got));
  EXPECT_EQ(got, value);
  std::uint16_t mark = 0;
  ASSERT_TRUE(in.Read(&mark));
  EXPECT_EQ(mark, 0xabcd);
  EXPECT_TRUE(in.AtEnd());

  // Reading fails for every shorter stream.
  for (std::size_t size = 0; size + sizeof mark < bytes.size(); ++size) {
    std::string part = bytes.substr(0, size);
    MemoryBufferStream cut(&part);
    T ignored{};
    EXPECT_FALSE(cut.Read(&ignored)) << size << " of " << bytes.size() - sizeof mark;
  }
}

struct Point {
  int x;
  double y;
  bool operator==(const Point& other) const { return x == other.x && y == other.y; }
};

struct Named {
  std::string name;
  std::vector<int> values;
  void Save(rabit::Stream* to) const {
    to->Write(name);
    to->Write(values);
  }
  void Load(rabit::Stream* from) {
    from->Read(&name);
    from->Read(&values);
  }
};

TEST(Streams, Values) {
  expect_same_after_round_trip(42);
  expect_same_after_round_trip(-1.5);
  expect_same_after_round_trip(Point{1, 2.5});
  expect_same_after_round_trip(std::string());
  expect_same_after_round_trip(std::string("a\0b", 3));
  expect_same_after_round_trip(std::pair<int, std::string>(3, "three"));
  expect_same_after_round_trip(std::vector<float>());
  expect_same_after_round_trip(std::vector<float>{1, 2, 3});
  expect_same_after_round_trip(std::vector<bool>{true, false, true});
  expect_same_after_round_trip(std::vector<std::string>{"", "x", "yz"});
  expect_same_after_round_trip(std::vector<std::vector<int>>{{}, {1}, {2, 3}});
  expect_same_after_round_trip(std::deque<int>{1, 2});
  expect_same_after_round_trip(std::list<std::string>{"p", "q"});
  expect_same_after_round_trip(std::set<int>{5, 3});
  expect_same_after_round_trip(std::map<std::string, int>{{"a", 1}, {"b", 2}});
  expect_same_after_round_trip(std::multimap<int, int>{{1, 1}, {1, 2}});
  expect_same_after_round_trip(std::unordered_set<int>{7, 8, 9});
  expect_same_after_round_trip(std::unordered_map<int, std::string>{{1, "one"}, {2, "two"}});
}

TEST(Streams, ObjectsSaveAndLoadThemselves) {
  std::string bytes;
  MemoryBufferStream stream(&bytes);
  const std::vector<Named> objects = {{"a", {1}}, {"b", {}}};
  stream.Write(objects);
  stream.Seek(0);
  std::vector<Named> got;
  ASSERT_TRUE(stream.Read(&got));
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].name, "a");
  EXPECT_EQ(got[0].values, std::vector<int>{1});
  EXPECT_EQ(got[1].name, "b");
}

TEST(Streams, LengthsAre64Bits) {
  std::string bytes;
  MemoryBufferStream stream(&bytes);
  stream.Write(std::string("ab"));
  EXPECT_EQ(bytes, std::string("\2\0\0\0\0\0\0\0ab", 10));
}

TEST(Streams, GrowingBufferOverwritesFromItsPosition) {
  std::string bytes;
  MemoryBufferStream stream(&bytes);
  stream.Write("abcd", 4);
  EXPECT_EQ(stream.Tell(), 4u);
  stream.Seek(1);
  stream.Write("XY", 2);
  EXPECT_EQ(bytes, "aXYd");
  char rest[8];
  EXPECT_EQ(stream.Read(rest, sizeof rest), 1u);
  EXPECT_EQ(rest[0], 'd');
  EXPECT_EQ(stream.Read(rest, sizeof rest), 0u);
}

TEST(Streams, FixedBuffer) {
  char memory[6] = {};
  MemoryFixSizeBuffer stream(memory, sizeof memory);
  stream.Write(7);
  stream.Write("ab", 2);
  EXPECT_TRUE(stream.AtEnd());
  stream.Seek(0);
  int number = 0;
  EXPECT_TRUE(stream.Read(&number));
  EXPECT_EQ(number, 7);
  stream.Seek(MemoryFixSizeBuffer::SeekEnd);
  EXPECT_EQ(stream.Tell(), 6u);
  stream.Seek(4);
  char rest[8];
  EXPECT_EQ(stream.Read(rest, sizeof rest), 2u) << "a read at the end is short";
  EXPECT_EQ(stream.Read(rest, sizeof rest), 0u);
}

TEST(StreamsDeathTest, FixedBufferKnowsItsEnd) {
  char memory[6] = {};
  MemoryFixSizeBuffer stream(memory, sizeof memory);
  stream.Write("abcd", 4);
  EXPECT_EXIT(stream.Write(1), testing::ExitedWithCode(255), "write of 4 bytes at 4");
  EXPECT_EXIT(stream.Seek(7), testing::ExitedWithCode(255), "seek to 7");
}

TEST(Utils, Helpers) {
  std::vector<int> none, some = {1, 2};
  EXPECT_EQ(rabit::BeginPtr(none), nullptr);
  EXPECT_EQ(rabit::BeginPtr(some), &some[0]);
  EXPECT_EQ(rabit::BeginPtr(std::string()), nullptr);
  char text[8];
  EXPECT_EQ(rabit::utils::SPrintf(text, sizeof text, "%d!", 12), 3);
  EXPECT_STREQ(text, "12!");
  const double start_s = rabit::utils::GetTime();
  EXPECT_GE(rabit::utils::GetTime(), start_s);
  rabit::utils::Check(true, "not printed");
}

TEST(UtilsDeathTest, ChecksEndTheProcess) {
  EXPECT_EXIT(rabit::utils::Check(false, "no %s", "luck"), testing::ExitedWithCode(255), "no luck");
  EXPECT_EXIT(rabit::utils::Assert(false, "a bug"), testing::ExitedWithCode(255),
              "AssertError: a bug");
  EXPECT_EXIT(rabit::utils::Error("at %d", 3), testing::ExitedWithCode(255), "at 3");
  EXPECT_EXIT(rabit::utils::FopenCheck("/nowhere/file", "r"), testing::ExitedWithCode(255),
              "cannot open file \"/nowhere/file\"");
}

}  // namespace
