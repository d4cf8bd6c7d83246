#include "datatypes/type.h"

namespace rejoin::datatypes {

Type::Type(const Memory& memory)
    : memory_(memory), pieces_(memory), owned_(memory), plan_(memory) {}

Type::Type(const Memory& memory, const Basic& basic) : Type(memory) {
  basic_ = basic;
  plan_.append_piece(0, basic.bytes);
  plan_.finish();
  signature_ = signature_of(basic.id);
  elements_ = 1;
  external_bytes_ = basic.external_bytes;
  alignment_ = basic.alignment;
  bounds_ = true_bounds_ = {0, basic.bytes};
}

Type::~Type() {
  for (std::size_t i = owned_.size(); i > 0; --i) destroy(memory_, owned_[i - 1]);
}

std::int64_t Type::elements_in(std::uint64_t bytes) const {
  if (bytes == 0) return 0;
  if (size_bytes() == 0) return -1;
  std::uint64_t found = bytes / size_bytes() * elements_;
  std::uint64_t rest = bytes % size_bytes();
  for (const Type* type = this; rest > 0;) {
    if (type->is_basic()) return -1;
    for (const Piece& piece : type->pieces_) {
      const std::uint64_t all = piece.values() * piece.type->size_bytes();
      if (rest < all) {
        found += rest / piece.type->size_bytes() * piece.type->elements_;
        rest %= piece.type->size_bytes();
        type = piece.type;
        break;
      }
      found += piece.values() * piece.type->elements_;
      rest -= all;
      if (rest == 0) break;
    }
  }
  return static_cast<std::int64_t>(found);
}

std::uint64_t Type::bytes_in(std::uint64_t elements) const {
  if (elements_ == 0) return 0;
  std::uint64_t bytes = elements / elements_ * size_bytes();
  std::uint64_t rest = elements % elements_;
  for (const Type* type = this; rest > 0;) {
    for (const Piece& piece : type->pieces_) {
      const Type& part = *piece.type;
      const std::uint64_t all = piece.values() * part.elements_;
      if (rest < all) {
        bytes += rest / part.elements_ * part.size_bytes();
        rest %= part.elements_;
        type = &part;
        break;
      }
      bytes += piece.values() * part.size_bytes();
      rest -= all;
      if (rest == 0) break;
    }
  }
  return bytes;
}

}  // namespace rejoin::datatypes
