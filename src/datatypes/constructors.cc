#include "datatypes/constructors.h"

#include <algorithm>
#include <limits>

namespace rejoin::datatypes {
namespace {

__extension__ typedef __int128 Sum;  // a sum of 64-bit values

constexpr Sum kMost = std::numeric_limits<std::int64_t>::max();

bool fits(Sum value) { return value >= -kMost && value <= kMost; }

struct Span {
  Sum lower, upper;
};

// Returns the span of the values of `piece` if one value has the bounds `of`.
Span span_of(const Piece& piece, const Bounds& of) {
  const Sum in_block = Sum{piece.type->extent()} * (Sum{piece.block} - 1);
  const Sum blocks = Sum{piece.stride} * (Sum{piece.blocks} - 1);
  const Sum zero = 0;
  return {Sum{piece.offset} + of.lower + std::min(in_block, zero) + std::min(blocks, zero),
          Sum{piece.offset} + of.upper + std::max(in_block, zero) + std::max(blocks, zero)};
}

}  // namespace

void Maker::add(const Piece& piece) {
  const Type& part = *piece.type;
  const bool marked = part.lower_set_ || part.upper_set_;
  if (piece.blocks == 0 || piece.block == 0 || (part.size_bytes() == 0 && !marked)) return;
  const Sum bytes = Sum{piece.blocks} * Sum{piece.block} * Sum{part.size_bytes()};
  const Sum external = Sum{piece.blocks} * Sum{piece.block} * Sum{part.external_bytes_};
  if (too_large_ || !fits(Sum{piece.blocks} * Sum{piece.block}) ||
      !fits(bytes + Sum{type_->plan_.bytes}) || !fits(external + Sum{type_->external_bytes_})) {
    too_large_ = true;
    return;
  }
  widen(piece);
  if (too_large_ || part.size_bytes() == 0) return;
  type_->pieces_.push(piece);
  type_->plan_.append(part.plan_, piece.offset, piece.blocks, piece.stride, piece.block,
                      part.extent());
  type_->signature_ = concatenate(type_->signature_, repeat(part.signature_, piece.values()));
  type_->elements_ += piece.values() * part.elements_;
  type_->external_bytes_ += static_cast<std::uint64_t>(external);
  type_->alignment_ = std::max(type_->alignment_, part.alignment_);
}

// Widens the type's bounds by a piece. The bounds of data count only if the program has not set
// that bound in any part of the type.
void Maker::widen(const Piece& piece) {
  const Type& part = *piece.type;
  const Span all = span_of(piece, part.bounds_), data = span_of(piece, part.true_bounds_);
  for (const Sum bound : {all.lower, all.upper, data.lower, data.upper}) {
    if (!fits(bound)) too_large_ = true;
  }
  if (!fits(all.upper - all.lower) || !fits(data.upper - data.lower)) too_large_ = true;
  if (too_large_) return;
  const auto lower = static_cast<std::int64_t>(all.lower);
  const auto upper = static_cast<std::int64_t>(all.upper);
  Bounds& bounds = type_->bounds_;
  if (part.lower_set_) {
    mark_lower(lower);
  } else if (!type_->lower_set_) {
    bounds.lower = has_data_ ? std::min(bounds.lower, lower) : lower;
  }
  if (part.upper_set_) {
    mark_upper(upper);
  } else if (!type_->upper_set_) {
    bounds.upper = has_data_ ? std::max(bounds.upper, upper) : upper;
  }
  if (part.size_bytes() == 0) return;
  const Bounds found = {static_cast<std::int64_t>(data.lower),
                        static_cast<std::int64_t>(data.upper)};
  Bounds& true_bounds = type_->true_bounds_;
  true_bounds.lower = has_data_ ? std::min(true_bounds.lower, found.lower) : found.lower;
  true_bounds.upper = has_data_ ? std::max(true_bounds.upper, found.upper) : found.upper;
  has_data_ = true;
}

void Maker::own(Type* part) {
  if (part == nullptr) {
    too_large_ = true;
  } else {
    type_->owned_.push(part);
  }
}

void Maker::set_bounds(std::int64_t lower, std::int64_t upper) {
  type_->bounds_ = {lower, upper};
  type_->lower_set_ = type_->upper_set_ = true;
}

// Rounds the extent up to a multiple of the strictest alignment.
void Maker::align() {
  if (type_->upper_set_ || type_->plan_.bytes == 0) return;
  const auto unit = static_cast<std::int64_t>(type_->alignment_);
  Sum extent = Sum{type_->bounds_.upper} - type_->bounds_.lower;
  const Sum over = extent % unit;
  if (over > 0) extent += unit - over;
  if (fits(type_->bounds_.lower + extent)) {
    type_->bounds_.upper = static_cast<std::int64_t>(type_->bounds_.lower + extent);
  } else {
    too_large_ = true;
  }
}

Type* Maker::finish() {
  align();
  const Bounds &all = type_->bounds_, &data = type_->true_bounds_;
  if (!fits(Sum{all.upper} - all.lower) || !fits(Sum{data.upper} - data.lower)) too_large_ = true;
  if (too_large_) return nullptr;
  type_->plan_.finish();
  Type* made = type_;
  type_ = nullptr;
  return made;
}

Type* make_basic(const Memory& memory, const Basic& basic) {
  return make<Type>(memory, memory, basic);
}

Type* make_contiguous(const Memory& memory, std::uint64_t count, const Type& old) {
  Maker maker(memory);
  maker.add_block(0, count, old);
  return maker.finish();
}

Type* make_vector(const Memory& memory, std::uint64_t count, std::uint64_t block,
                  std::int64_t stride, const Type& old) {
  Maker maker(memory);
  maker.add({0, count, stride, block, &old});
  return maker.finish();
}

Type* make_resized(const Memory& memory, const Type& old, std::int64_t lower, std::int64_t extent) {
  Maker maker(memory);
  maker.add_block(0, 1, old);
  const Sum upper = Sum{lower} + extent;
  if (!fits(upper)) return nullptr;
  maker.set_bounds(lower, static_cast<std::int64_t>(upper));
  return maker.finish();
}

Type* make_dup(const Memory& memory, const Type& old) { return make_contiguous(memory, 1, old); }

}  // namespace rejoin::datatypes
