// Type maps against a naive interpreter, which lists every element of a type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "datatypes/copy.h"
#include "datatypes/external.h"
#include "naive_datatypes.h"

namespace rejoin::datatypes {
namespace {

// The memory around a buffer of values. A value may begin before the buffer.
class Area {
 public:
  Area(const std::vector<std::int64_t>& places, unsigned fill) {
    for (const std::int64_t p : places) {
      lowest_ = std::min(lowest_, p);
      highest_ = std::max(highest_, p);
    }
    bytes.resize(static_cast<std::size_t>(highest_ - lowest_ + 1));
    std::mt19937 random(fill);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  }
  std::byte* buffer() { return bytes.data() - lowest_; }

  std::vector<std::byte> bytes;

 private:
  std::int64_t lowest_ = 0, highest_ = 0;
};

void expect_facts(const Type& t, const Naive& n) {
  ASSERT_EQ(t.size_bytes(), n.size());
  EXPECT_EQ(t.bounds().lower, n.lower);
  EXPECT_EQ(t.bounds().upper, n.upper);
  EXPECT_EQ(t.elements(), n.map.size());
  std::int64_t lower = 0, upper = 0;
  std::uint64_t external = 0;
  Signature signature;
  for (std::size_t i = 0; i < n.map.size(); ++i) {
    const Entry& e = n.map[i];
    lower = i == 0 ? e.at : std::min(lower, e.at);
    upper = i == 0 ? e.at + e.basic.bytes : std::max(upper, e.at + e.basic.bytes);
    external += e.basic.external_bytes;
    signature = concatenate(signature, signature_of(e.basic.id));
  }
  EXPECT_EQ(t.true_bounds().lower, lower);
  EXPECT_EQ(t.true_bounds().upper, upper);
  EXPECT_EQ(t.external_bytes(), external);
  EXPECT_EQ(t.signature(), signature);
  const auto three = n.bytes(3);
  bool contiguous = n.extent() == static_cast<std::int64_t>(n.size()) || three.empty();
  for (std::size_t i = 1; i < three.size(); ++i) contiguous &= three[i] == three[i - 1] + 1;
  // A contiguous type may still be described by several pieces.
  EXPECT_TRUE(contiguous || !t.is_contiguous());
}

void expect_copies(Types& random, const Type& t, const Naive& n, int count) {
  const auto places = n.bytes(count);
  Area area(places, 5);
  const auto all = static_cast<int>(places.size());
  for (int i = 0; i < 4; ++i) {
    const int skip = i == 0 ? 0 : random.below(all + 1);
    const int bytes = i == 0 ? all : random.below(all - skip + 1);
    std::vector<std::byte> packed(static_cast<std::size_t>(bytes) + 1, std::byte{0x5a});
    pack(t, area.buffer(), static_cast<unsigned>(count), static_cast<unsigned>(skip), packed.data(),
         static_cast<unsigned>(bytes));
    for (int b = 0; b < bytes; ++b) {
      ASSERT_EQ(packed[static_cast<std::size_t>(b)],
                area.buffer()[places[static_cast<std::size_t>(skip + b)]])
          << "byte " << b << " of " << bytes << " from " << skip;
    }
    ASSERT_EQ(packed.back(), std::byte{0x5a});
    Area to(places, 6), expected(places, 6);
    for (int b = 0; b < bytes; ++b) {
      expected.buffer()[places[static_cast<std::size_t>(skip + b)]] =
          packed[static_cast<std::size_t>(b)];
    }
    unpack(t, packed.data(), static_cast<unsigned>(bytes), to.buffer(),
           static_cast<unsigned>(count), static_cast<unsigned>(skip));
    ASSERT_EQ(to.bytes, expected.bytes) << bytes << " bytes from " << skip;
  }
}

void expect_elements(const Type& t, const Naive& n) {
  std::vector<std::int64_t> expected(2 * n.size() + 1, -1);
  expected[0] = 0;
  std::uint64_t at = 0;
  for (int i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < n.map.size(); ++k) {
      at += n.map[k].basic.bytes;
      expected[at] = static_cast<std::int64_t>(static_cast<std::size_t>(i) * n.map.size() + k + 1);
    }
  }
  for (std::size_t b = 0; b < expected.size(); ++b) {
    ASSERT_EQ(t.elements_in(b), expected[b]);
    if (expected[b] < 0) continue;
    ASSERT_EQ(t.bytes_in(static_cast<std::uint64_t>(expected[b])), b);
  }
}

bool overlaps(const Naive& n, int count) {
  auto places = n.bytes(count);
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

void expect_external(const Type& t, const Naive& n, int count) {
  const auto places = n.bytes(count);
  Area area(places, 7);
  for (int i = 0; i < count; ++i) {  // values that fit
    for (const Entry& e : n.map) {
      std::byte* value = area.buffer() + e.at + i * n.extent();
      if (e.basic.external == External::kSame) continue;
      std::int64_t v = static_cast<int>(value[0]) * 1000003;
      if (e.basic.external == External::kSigned && (v & 1) != 0) v = -v;
      std::memcpy(value, &v, sizeof v);
    }
  }
  std::vector<std::byte> expected;
  for (int i = 0; i < count; ++i) {
    for (const Entry& e : n.map) {
      const std::byte* value = area.buffer() + e.at + i * n.extent();
      const int part = e.basic.external_bytes / e.basic.parts, own = e.basic.bytes / e.basic.parts;
      for (int p = 0; p < e.basic.parts; ++p) {
        for (int b = part - 1; b >= 0; --b) expected.push_back(value[p * own + b]);
      }
    }
  }
  std::vector<std::byte> external(t.external_bytes() * static_cast<unsigned>(count));
  EXPECT_TRUE(pack_external(t, area.buffer(), static_cast<unsigned>(count), external.data()));
  EXPECT_EQ(external, expected);
  Area back(places, 8);
  unpack_external(t, external.data(), back.buffer(), static_cast<unsigned>(count));
  for (const std::int64_t p : places) ASSERT_EQ(back.buffer()[p], area.buffer()[p]);
}

TEST(Datatypes, AgreeWithTheirMaps) {
  unsigned checked = 0, gaps = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Types types(seed);
    for (int i = 0; i < 30; ++i) {
      const Both& b = types.grow();
      ASSERT_NE(b.type, nullptr);
      expect_facts(*b.type, b.naive);
      expect_elements(*b.type, b.naive);
      const int count = types.below(4);
      if (overlaps(b.naive, count)) continue;
      expect_copies(types, *b.type, b.naive, count);
      expect_external(*b.type, b.naive, count);
      if (testing::Test::HasFailure()) return;
      ++checked;
      gaps += !b.type->is_contiguous();
    }
  }
  EXPECT_GT(checked, 1500u);
  EXPECT_GT(gaps, 500u);
  EXPECT_EQ(in_use, 0u);
}

class DatatypesTest : public testing::Test {
 protected:
  ~DatatypesTest() override {
    for (std::size_t i = made_.size(); i > 0; --i) destroy(kMemory, made_[i - 1]);
    EXPECT_EQ(in_use, 0u);
  }
  const Type& keep(Type* type) {
    made_.push_back(type);
    return *type;
  }

  std::vector<Type*> made_;
  const Type& int_ = keep(make_basic(kMemory, kBasics[2]));
};

// The plan of a type does not depend on how the type was made.
TEST_F(DatatypesTest, PlansAreFlat) {
  const auto expect_one_loop = [](const Type& t, std::uint64_t count, std::int64_t stride,
                                  std::uint64_t bytes) {
    ASSERT_EQ(t.plan().nodes.size(), 1u);
    const Node& n = t.plan().nodes[0];
    EXPECT_EQ(n.body, nullptr);
    EXPECT_EQ(n.count, count);
    EXPECT_EQ(n.stride, stride);
    EXPECT_EQ(n.bytes, bytes);
  };
  const Type& vector = keep(make_vector(kMemory, 10, 2, 16, int_));
  expect_one_loop(vector, 10, 16, 8);
  const Type& round = keep(make_resized(kMemory, vector, 0, 160));
  expect_one_loop(keep(make_contiguous(kMemory, 7, round)), 70, 16, 8);
  expect_one_loop(keep(make_vector(kMemory, 3, 4, 16, int_)), 1, 0, 48);
  Maker regular(kMemory);
  for (int i = 0; i < 100; ++i) regular.add_block(i * 12, 1, int_);
  expect_one_loop(keep(regular.finish()), 100, 12, 4);
  Maker adjacent(kMemory);
  for (int i = 0; i < 100; ++i) adjacent.add_block(i * 4, 1, int_);
  const Type& whole = keep(adjacent.finish());
  expect_one_loop(whole, 1, 0, 400);
  EXPECT_TRUE(whole.is_contiguous());
  const int size[] = {6, 5, 4}, subsize[] = {3, 5, 4}, start[] = {2, 0, 0};
  expect_one_loop(keep(make_subarray(kMemory, 3, size, subsize, start, true, int_)), 1, 0, 240);
  const int rows[] = {6, 5, 2};
  expect_one_loop(keep(make_subarray(kMemory, 3, size, rows, start, true, int_)), 30, 16, 8);
}

// A million million elements are described by a few pieces.
TEST_F(DatatypesTest, CostDependsOnTheDescriptionAlone) {
  const Type* t = &int_;
  for (int i = 0; i < 5; ++i) t = &keep(make_vector(kMemory, 1000, 1, 2 * t->extent() + 4, *t));
  EXPECT_EQ(t->elements(), 1000000000000000u);
  EXPECT_EQ(t->elements_in(t->size_bytes() - 4), 999999999999999);
  std::byte first[6];
  const std::byte here[64] = {};
  pack(*t, here, 1, 2, first, 6);
  // Each type is two of the previous one: 2^60 pieces if they were listed.
  const Type* twice = &int_;
  for (int i = 0; i < 60; ++i) {
    Maker maker(kMemory);
    maker.add_block(0, 1, *twice);
    maker.add_block(twice->extent() + (i == 0 ? 4 : 0), 1, *twice);
    Type* made = maker.finish();
    if (made == nullptr) break;
    twice = &keep(made);
  }
  EXPECT_GT(twice->elements(), std::uint64_t{1} << 55);
}

TEST_F(DatatypesTest, ATypeThatIsTooLargeIsRefused) {
  const Type& large = keep(make_contiguous(kMemory, 0x7fffffff, int_));
  const Type& larger = keep(make_contiguous(kMemory, 0x3fffffff, large));
  EXPECT_EQ(make_contiguous(kMemory, 4, larger), nullptr);
  EXPECT_EQ(make_vector(kMemory, 3, 1, INT64_MAX / 2 + 1, int_), nullptr);
  EXPECT_EQ(make_resized(kMemory, int_, INT64_MAX - 1, 2), nullptr);
  const int size[] = {0x7fffffff, 0x7fffffff, 0x7fffffff}, one[] = {1, 1, 1}, zero[] = {0, 0, 0};
  EXPECT_EQ(make_subarray(kMemory, 3, size, one, zero, true, int_), nullptr);
}

TEST_F(DatatypesTest, ExternalValuesMustFit) {
  const Type& narrowed = keep(make_basic(kMemory, kBasics[3]));
  std::byte external[4];
  for (const auto& [value, fits] : {std::pair{0x7fffffffL, true},
                                    {0x80000000L, false},
                                    {-0x80000000L, true},
                                    {-0x80000001L, false}}) {
    EXPECT_EQ(pack_external(narrowed, &value, 1, external), fits) << value;
  }
}

TEST_F(DatatypesTest, LongDoublesAreQuads) {
  const Type& extended = keep(make_basic(kMemory, {9, 16, 16, 1, 16, External::kQuad}));
  // binary128 of 1.5: exponent 0x3fff, fraction 0x8000...
  const long double value = 1.5L;
  std::byte external[16];
  ASSERT_TRUE(pack_external(extended, &value, 1, external));
  const unsigned char expected[16] = {0x3f, 0xff, 0x80};
  EXPECT_EQ(std::memcmp(external, expected, 16), 0);
  for (const long double v : {0.0L, -1.0L / 3, 1e-4000L, 1e4000L}) {
    long double back = 7;
    ASSERT_TRUE(pack_external(extended, &v, 1, external));
    unpack_external(extended, external, &back, 1);
    EXPECT_EQ(back, v);
  }
}

}  // namespace
}  // namespace rejoin::datatypes
