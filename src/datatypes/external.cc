#include "datatypes/external.h"

#include <algorithm>
#include <cstring>

namespace rejoin::datatypes {
namespace {

__extension__ typedef __float128 Quad;

void copy_reversed(const std::byte* from, std::size_t bytes, std::byte* to) {
  std::reverse_copy(from, from + bytes, to);
}

std::int64_t load(const std::byte* from, std::size_t bytes, bool is_signed) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  const auto unused = static_cast<unsigned>(64 - 8 * bytes);
  if (!is_signed) return static_cast<std::int64_t>(value);
  return static_cast<std::int64_t>(value << unused) >> unused;
}

// Writes one number of a basic element. False: it does not fit.
bool write(const Basic& basic, const std::byte* from, std::size_t bytes, std::byte* to,
           std::size_t external_bytes) {
  switch (basic.external) {
    case External::kSame:
      copy_reversed(from, bytes, to);
      return true;
    case External::kSigned:
    case External::kUnsigned: {
      const bool is_signed = basic.external == External::kSigned;
      const std::int64_t value = load(from, bytes, is_signed);
      std::byte kept[sizeof value];
      std::memcpy(kept, &value, sizeof value);
      copy_reversed(kept, external_bytes, to);
      return load(kept, external_bytes, is_signed) == value;
    }
    case External::kQuad: {
      long double value;
      std::memcpy(&value, from, sizeof value);
      const Quad quad = value;
      std::byte kept[sizeof quad];
      std::memcpy(kept, &quad, sizeof quad);
      copy_reversed(kept, sizeof quad, to);
      return true;
    }
  }
  return false;
}

void read(const Basic& basic, const std::byte* from, std::size_t external_bytes, std::byte* to,
          std::size_t bytes) {
  std::byte kept[16];
  copy_reversed(from, external_bytes, kept);
  if (basic.external == External::kSame) {
    std::memcpy(to, kept, bytes);
  } else if (basic.external == External::kQuad) {
    Quad quad;
    std::memcpy(&quad, kept, sizeof quad);
    const auto value = static_cast<long double>(quad);
    std::memset(to, 0, bytes);
    std::memcpy(to, &value, 10);  // the other bytes are padding
  } else {
    const std::int64_t value = load(kept, external_bytes, basic.external == External::kSigned);
    std::memcpy(to, &value, bytes);
  }
}

// Writes the value at `place` to *external, or reads it from there, and advances *external.
template <bool kPack>
bool convert(const Type& type, std::byte* place, std::byte** external) {
  if (type.is_basic()) {
    const Basic& b = type.basic();
    const std::size_t bytes = b.bytes / b.parts, external_bytes = b.external_bytes / b.parts;
    bool fitted = true;
    for (unsigned i = 0; i < b.parts; ++i, *external += external_bytes, place += bytes) {
      if constexpr (kPack) {
        fitted &= write(b, place, bytes, *external, external_bytes);
      } else {
        read(b, *external, external_bytes, place, bytes);
      }
    }
    return fitted;
  }
  bool fitted = true;
  for (const Piece& piece : type.pieces()) {
    std::byte* block = place + piece.offset;
    for (std::uint64_t i = 0; i < piece.blocks; ++i, block += piece.stride) {
      std::byte* value = block;
      for (std::uint64_t k = 0; k < piece.block; ++k, value += piece.type->extent()) {
        fitted &= convert<kPack>(*piece.type, value, external);
      }
    }
  }
  return fitted;
}

template <bool kPack>
bool convert_all(const Type& type, std::byte* place, std::uint64_t count, std::byte* external) {
  bool fitted = true;
  for (std::uint64_t i = 0; i < count; ++i, place += type.extent()) {
    fitted &= convert<kPack>(type, place, &external);
  }
  return fitted;
}

}  // namespace

bool pack_external(const Type& type, const void* buffer, std::uint64_t count, std::byte* external) {
  return convert_all<true>(type, static_cast<std::byte*>(const_cast<void*>(buffer)), count,
                           external);
}

void unpack_external(const Type& type, const std::byte* external, void* buffer,
                     std::uint64_t count) {
  convert_all<false>(type, static_cast<std::byte*>(buffer), count,
                     const_cast<std::byte*>(external));
}

}  // namespace rejoin::datatypes
