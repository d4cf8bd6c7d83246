// Collectives whose members get different bytes, as messages. A Port has
//
//     size(), me()                                   members, and which I am
//     send(peer, data, bytes)                        never blocks
//     receive(peer, max_bytes, &data, &bytes)        waits; false: something is wrong, stop
//
// Buffers are contiguous bytes. All of them return false as soon as a receive does.
//     n  members    S  bytes of a block
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/reduction.h"

namespace rejoin::engine {

struct Block {
  std::byte* data;
  std::size_t bytes;  // at most, when receiving
};

// Root receives block i from member i, into place(i). 1 step, (n-1) S bytes to the root.
// own: what the root contributes; null: it lies in place already.
template <class Port, class Place>
bool gather(Port& port, std::uint32_t root, const void* own, std::size_t own_bytes, Place&& place) {
  if (port.me() != root) {
    port.send(root, own, own_bytes);
    return true;
  }
  for (std::uint32_t i = 0; i < port.size(); ++i) {
    const Block to = place(i);
    const std::byte* data = static_cast<const std::byte*>(own);
    std::size_t bytes = own_bytes;
    if (i != root && !port.receive(i, to.bytes, &data, &bytes)) return false;
    if (data != nullptr && bytes > 0) std::memmove(to.data, data, bytes);
  }
  return true;
}

// Root sends block i, at place(i), to member i. 1 step, (n-1) S bytes from the root.
// own: where a member's block goes; null at the root: it stays where it is.
template <class Port, class Place>
bool scatter(Port& port, std::uint32_t root, void* own, std::size_t own_bytes, Place&& place) {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  if (port.me() == root) {
    for (std::uint32_t i = 0; i < port.size(); ++i) {
      const Block from = place(i);
      if (i != root) {
        port.send(i, from.data, from.bytes);
      } else {
        data = from.data;
        bytes = from.bytes;
      }
    }
  } else if (!port.receive(root, own_bytes, &data, &bytes)) {
    return false;
  }
  if (own != nullptr && bytes > 0) std::memmove(own, data, bytes);
  return true;
}

// Member i's block out(j) goes to member j's in(i). n-1 messages each. `out` blocks must stay as
// they are until everything is sent, so in-place callers hand in a copy.
template <class Port, class Out, class In>
bool alltoall(Port& port, Out&& out, In&& in) {
  const std::uint32_t n = port.size(), me = port.me();
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint32_t to = (me + k) % n;
    port.send(to, out(to).data, out(to).bytes);
  }
  const Block own = out(me);
  if (own.bytes > 0) std::memmove(in(me).data, own.data, own.bytes);
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint32_t from = (me + n - k) % n;
    const std::byte* data;
    std::size_t bytes;
    if (!port.receive(from, in(from).bytes, &data, &bytes)) return false;
    if (bytes > 0) std::memcpy(in(from).data, data, bytes);
  }
  return true;
}

// Root folds the contributions of all members in the order of attempt.h: c0 op (c1 op (...)).
// In pieces, so that the root reduces one while the members store the next. `result`: `bytes` at
// the root, apart from `input`; unused elsewhere.
template <class Port>
bool reduce(Port& port, std::uint32_t root, const void* input, std::size_t bytes,
            const Reduction& op, void* result) {
  constexpr std::size_t kPieceBytes = 256 * 1024;
  const std::size_t elements = kPieceBytes / op.element_bytes;
  const std::size_t piece = (elements > 0 ? elements : 1) * op.element_bytes;
  const std::uint32_t n = port.size();
  for (std::size_t at = 0; at < bytes || at == 0; at += piece) {
    const std::size_t size = bytes - at < piece ? bytes - at : piece;
    const std::byte* mine = static_cast<const std::byte*>(input) + at;
    if (port.me() != root) {
      port.send(root, mine, size);
    } else {
      std::byte* out = static_cast<std::byte*>(result) + at;
      for (std::uint32_t i = n; i-- > 0;) {
        const std::byte* left = mine;
        std::size_t got = size;
        if (i != root && !port.receive(i, size, &left, &got)) return false;
        if (i == n - 1) {
          std::memcpy(out, left, got);
        } else {
          op.combine(op, left, out, out, got / op.element_bytes);
        }
      }
    }
    if (bytes == 0) break;
  }
  return true;
}

// Inclusive prefix along a chain: member i gets c0 op ... op ci. n-1 steps. `result`: `bytes`,
// apart from `input`. With `exclusive`, member i gets the prefix before it (member 0: untouched),
// and `scratch` (`bytes`) holds what it passes on.
template <class Port>
bool scan(Port& port, const void* input, std::size_t bytes, const Reduction& op, void* result,
          bool exclusive, void* scratch) {
  const std::uint32_t me = port.me();
  const std::size_t count = bytes / op.element_bytes;
  void* inclusive = exclusive ? scratch : result;
  std::memcpy(inclusive, input, bytes);
  if (me > 0) {
    const std::byte* before;
    std::size_t got;
    if (!port.receive(me - 1, bytes, &before, &got)) return false;
    op.combine(op, before, inclusive, inclusive, count);
    if (exclusive) std::memcpy(result, before, bytes);
  }
  if (me + 1 < port.size()) port.send(me + 1, inclusive, bytes);
  return true;
}

}  // namespace rejoin::engine
