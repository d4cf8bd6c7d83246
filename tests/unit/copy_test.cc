// copy_payload copies the same bytes as memmove at every alignment and writes no others.
#include "copy/copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace rejoin::test {
namespace {

constexpr std::size_t kPage = 4096;

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> p(bytes);
  for (std::size_t i = 0; i < bytes; ++i) p[i] = static_cast<std::byte>(i * 7 + i / 251);
  return p;
}

// Compares all of the memory around the destination, too. Source and destination may overlap.
void copies_as_memmove(std::size_t from, std::size_t to, std::size_t bytes) {
  std::vector<std::byte> expected = pattern(6 * kPage), got = expected;
  std::memmove(expected.data() + to, expected.data() + from, bytes);
  copy_payload(got.data() + to, got.data() + from, bytes);
  ASSERT_EQ(got, expected) << bytes << " bytes from " << from << " to " << to;
}

TEST(CopyPayload, AtEveryDistanceModuloAPage) {
  for (const std::size_t bytes : {2047, 2048, 2049, 2175, 2176, 4096, 5000}) {
    for (std::size_t distance = 0; distance < 2 * kPage;
         distance += distance % kPage < 70 ? 1 : 61) {
      if (distance + bytes + 33 > 5 * kPage) continue;
      copies_as_memmove(33, 33 + distance, bytes);
      copies_as_memmove(33 + distance, 33, bytes);
    }
  }
}

TEST(CopyPayload, ByVectorsOfEveryLength) {
  const std::vector<std::byte> from = pattern(2 * kPage);
  for (std::size_t bytes = 128; bytes < 700; ++bytes) {
    for (const std::size_t skew : {0, 1, 16, 31, 32}) {
      std::vector<std::byte> to(2 * kPage);
      copying::copy_by_vectors(to.data() + skew, from.data() + 5, bytes);
      ASSERT_EQ(std::memcmp(to.data() + skew, from.data() + 5, bytes), 0) << bytes;
      ASSERT_EQ(to[skew + bytes], std::byte{0}) << bytes;
      ASSERT_TRUE(skew == 0 || to[skew - 1] == std::byte{0}) << bytes;
    }
  }
}

TEST(CopyPayload, OfNothingNeedsNoAddress) { copy_payload(nullptr, nullptr, 0); }

// The condition under which `rep movsb` is slow.
TEST(CopyPayload, LessThanALineBehindModuloAPageAliases) {
  const auto* page = reinterpret_cast<const std::byte*>(16 * kPage);
  EXPECT_FALSE(copying::aliases(page, page + 5 * kPage));
  EXPECT_TRUE(copying::aliases(page + 1, page + 5 * kPage));
  EXPECT_TRUE(copying::aliases(page + 63, page));
  EXPECT_FALSE(copying::aliases(page + 64, page));
  EXPECT_FALSE(copying::aliases(page, page + 16));
}

}  // namespace
}  // namespace rejoin::test
