#include "datatypes/copy.h"

#include <algorithm>
#include <cstring>

#include "copy/copy.h"

namespace rejoin::datatypes {
namespace {

// Copies data by the plan of a type. kPack: from its places into packed memory, else the other way.
template <bool kPack>
class Copier {
 public:
  explicit Copier(std::byte* packed) : packed_(packed) {}

  // Copies bytes [skip, skip + bytes) of a node's data. `base`: the address of the type.
  void copy(const Node& node, std::byte* base, std::uint64_t skip, std::uint64_t bytes) {
    if (bytes == 0) return;
    base += node.offset;
    std::uint64_t turn = skip / node.bytes;
    if (const std::uint64_t rest = skip % node.bytes; rest > 0) {
      const std::uint64_t part = std::min(bytes, node.bytes - rest);
      copy_part(node, at(node, base, turn), rest, part);
      bytes -= part;
      ++turn;
    }
    if (const std::uint64_t turns = bytes / node.bytes; turns > 0) {
      copy_turns(node, at(node, base, turn), turns);
      turn += turns;
    }
    if (bytes % node.bytes > 0) copy_part(node, at(node, base, turn), 0, bytes % node.bytes);
  }

 private:
  static std::byte* at(const Node& node, std::byte* base, std::uint64_t turn) {
    return base + static_cast<std::int64_t>(turn) * node.stride;
  }

  // Copies a part of one turn.
  void copy_part(const Node& node, std::byte* base, std::uint64_t skip, std::uint64_t bytes) {
    if (node.body == nullptr) {
      copy_piece(base + skip, bytes);
      return;
    }
    const Array<Node>& nodes = node.body->nodes;
    const Node* next =
        std::upper_bound(nodes.begin(), nodes.end(), skip,
                         [](std::uint64_t value, const Node& n) { return value < n.packed_at; }) -
        1;
    for (; bytes > 0; ++next) {
      const std::uint64_t within = skip - next->packed_at;
      const std::uint64_t part = std::min(bytes, next->all_bytes() - within);
      copy(*next, base, within, part);
      skip += part;
      bytes -= part;
    }
  }

  void copy_turns(const Node& node, std::byte* base, std::uint64_t turns) {
    if (node.body == nullptr) {
      copy_pieces(base, turns, node.stride, node.bytes);
      return;
    }
    for (std::uint64_t i = 0; i < turns; ++i, base += node.stride) {
      for (const Node& n : node.body->nodes) copy_turns(n, base + n.offset, n.count);
    }
  }

  void copy_piece(std::byte* data, std::uint64_t bytes) {
    if constexpr (kPack) {
      copy_payload(packed_, data, bytes);
    } else {
      copy_payload(data, packed_, bytes);
    }
    packed_ += bytes;
  }

  // Copies turns of a size that the compiler knows, by one move instead of a call.
  template <std::size_t kBytes>
  void copy_known(std::byte* data, std::uint64_t count, std::int64_t stride) {
    std::byte* packed = packed_;
    for (std::uint64_t i = 0; i < count; ++i, data += stride, packed += kBytes) {
      if constexpr (kPack) {
        std::memcpy(packed, data, kBytes);
      } else {
        std::memcpy(data, packed, kBytes);
      }
    }
    packed_ = packed;
  }

  void copy_pieces(std::byte* data, std::uint64_t count, std::int64_t stride, std::uint64_t bytes) {
    switch (bytes) {
      case 1:
        return copy_known<1>(data, count, stride);
      case 2:
        return copy_known<2>(data, count, stride);
      case 4:
        return copy_known<4>(data, count, stride);
      case 8:
        return copy_known<8>(data, count, stride);
      case 12:
        return copy_known<12>(data, count, stride);
      case 16:
        return copy_known<16>(data, count, stride);
      case 24:
        return copy_known<24>(data, count, stride);
      case 32:
        return copy_known<32>(data, count, stride);
      case 64:
        return copy_known<64>(data, count, stride);
      default:
        for (std::uint64_t i = 0; i < count; ++i, data += stride) copy_piece(data, bytes);
    }
  }

  std::byte* packed_;
};

}  // namespace

void pack(const Type& type, const void* buffer, std::uint64_t count, std::uint64_t skip,
          std::byte* packed, std::uint64_t bytes) {
  if (bytes == 0) return;
  auto* data = static_cast<std::byte*>(const_cast<void*>(buffer));
  Copier<true>(packed).copy(type.plan().repeated(count, type.extent()), data, skip, bytes);
}

void unpack(const Type& type, const std::byte* packed, std::uint64_t bytes, void* buffer,
            std::uint64_t count, std::uint64_t skip) {
  if (bytes == 0) return;
  Copier<false>(const_cast<std::byte*>(packed))
      .copy(type.plan().repeated(count, type.extent()), static_cast<std::byte*>(buffer), skip,
            bytes);
}

}  // namespace rejoin::datatypes
