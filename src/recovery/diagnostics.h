// Texts about operations for users. Nothing here decides anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/peer_view.h"
#include "recovery/types.h"

namespace rejoin::recovery {

// A call in words, "MPI_Bcast of 8 bytes, root 0 at {...}", with the call site as in
// wire/messages.h.
struct CallText {
  char text[160];
};
CallText describe(const journal::PeerView& peers, std::uint32_t world_rank, std::uint32_t call);

// Copies `text`, up to `bytes` including its end. Each call site is replaced by what is known
// without debug information: "a.out+0x1a2b", or the name that the program gave it.
void copy_with_sites(const journal::PeerView& peers, const char* text, char* to, std::size_t bytes);

// What former incarnations have shown to others and this one has not repeated yet.
struct Left {
  enum class What : std::uint8_t { kNothing, kMessages, kOperations, kSynchronous };
  What what = What::kNothing;
  std::uint64_t count = 0;
  std::uint32_t to = 0;  // messages: world rank
};

// Values instead of a call: the program asks a question (Test, a probe), or it ends.
inline constexpr std::uint32_t kQuestion = ~std::uint32_t{0};
inline constexpr std::uint32_t kEnd = kQuestion - 1;

// The newest failure of a rank.
class Diagnostics {
 public:
  explicit Diagnostics(const journal::PeerView& peers) : peers_(peers) {}

  const char* error() const { return error_; }
  void set_error(const char* format, ...) __attribute__((format(printf, 2, 3)));

  CallText call(std::uint32_t world_rank, std::uint32_t call) const {
    return describe(peers_, world_rank, call);
  }

  // Texts with which a job stops, or that a user is shown; valid until the next of them.
  const char* other_operation(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t recorded,
                              std::uint32_t now);
  const char* other_contribution(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t call,
                                 bool stops);
  const char* other_message(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t call,
                            std::uint32_t to, std::uint64_t bytes, std::uint64_t posted_bytes);
  // `call`: the new operation's, or kQuestion, or kEnd.
  const char* other_course(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t call,
                           const Left& left);
  const char* other_receive(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t from,
                            std::uint64_t bytes);
  const char* other_question(std::uint64_t ordinal, std::uint32_t rank, const char* recorded,
                             const char* asked);
  // `other`: a member that calls from another place, or the rank itself if its first call did.
  const char* unproven_call(std::uint32_t rank, std::uint32_t call, std::uint32_t other,
                            std::uint32_t other_call);
  const char* other_key(std::uint32_t rank, std::uint32_t then, std::uint32_t now);
  const char* other_model(std::uint64_t version, std::uint32_t rank, std::uint64_t bytes,
                          std::uint64_t first_bytes);
  const char* other_model_again(std::uint64_t version, std::uint32_t rank, bool stops);

  // Errors of an operation; error() returns them afterwards.
  void mismatch(bool earlier, std::uint32_t rank, std::uint32_t call, std::uint32_t other,
                std::uint32_t other_call);
  void mismatch_at_checkpoint(std::uint64_t version, std::uint32_t rank, std::uint32_t call,
                              std::uint32_t other, std::uint32_t other_call);
  void recorded_mismatch();
  void truncated(std::uint32_t rank, std::uint32_t call, std::uint32_t from, std::uint64_t bytes,
                 std::uint64_t max_bytes);

 private:
  const char* put(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // Formats a difference between a replay and the first execution; appends the likely cause and the
  // page that explains it.
  const char* put_difference(const char* format, ...) __attribute__((format(printf, 2, 3)));

  const journal::PeerView& peers_;
  char error_[768] = "";
  char text_[1024] = "";
};

}  // namespace rejoin::recovery
