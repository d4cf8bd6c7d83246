#include "recovery/diagnostics.h"

#include <string.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>

#include "recovery/causes.h"

namespace rejoin::recovery {
namespace {

unsigned long long number(std::uint64_t n) { return n; }
// The suffix for "%llu byte%s".
const char* plural(std::uint64_t n) { return n == 1 ? "" : "s"; }

}  // namespace

CallText describe(const journal::PeerView& peers, std::uint32_t world_rank, std::uint32_t call) {
  CallText t;
  const auto entry = peers.call(world_rank, call);
  if (!entry) {
    std::snprintf(t.text, sizeof t.text, "(unknown)");
    return t;
  }
  char root[24] = "";
  const Signature& s = entry->signature;
  if (s.root >= 0) std::snprintf(root, sizeof root, ", root %d", s.root);
  std::snprintf(t.text, sizeof t.text, "MPI_%s of %llu byte%s%s at {%u:%u:%llx}",
                name_of(static_cast<OpKind>(s.kind)), number(s.bytes), plural(s.bytes), root,
                world_rank, entry->module, number(entry->place));
  return t;
}

namespace {

// "MODULE+0xPLACE" or "FILE:LINE::FUNCTION".
void put_site(const journal::ModuleEntry& module, unsigned long long place, char* to,
              std::size_t bytes) {
  const int length = static_cast<int>(strnlen(module.path, sizeof module.path));
  if (module.build_id_bytes == journal::kNamedSite) {
    const auto* function = static_cast<const char*>(memmem(module.path, length, "::", 2));
    const int file = function == nullptr ? length : static_cast<int>(function - module.path);
    std::snprintf(to, bytes, "%.*s:%llu%.*s", file, module.path, place, length - file,
                  module.path + file);
    return;
  }
  const auto* slash = static_cast<const char*>(memrchr(module.path, '/', length));
  const int begin = slash == nullptr ? 0 : static_cast<int>(slash + 1 - module.path);
  std::snprintf(to, bytes, "%.*s+0x%llx", length - begin, module.path + begin, place);
}

}  // namespace

void copy_with_sites(const journal::PeerView& peers, const char* text, char* to,
                     std::size_t bytes) {
  std::size_t at = 0;
  while (*text != '\0' && at + 1 < bytes) {
    unsigned rank = 0, index = 0;
    unsigned long long place = 0;
    int taken = 0;
    std::optional<journal::ModuleEntry> module;
    if (*text == '{' && std::sscanf(text, "{%u:%u:%llx}%n", &rank, &index, &place, &taken) == 3 &&
        taken > 0 && rank < peers.ranks()) {
      module = peers.module(rank, index);
    }
    if (!module) {
      to[at++] = *text++;
      continue;
    }
    put_site(*module, place, to + at, bytes - at);
    at += std::strlen(to + at);
    text += taken;
  }
  if (bytes > 0) to[at] = '\0';
}

void Diagnostics::set_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_, sizeof error_, format, arguments);
  va_end(arguments);
}

const char* Diagnostics::put(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof text_, format, arguments);
  va_end(arguments);
  return text_;
}

const char* Diagnostics::put_difference(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof text_, format, arguments);
  va_end(arguments);
  const std::size_t end = std::strlen(text_);
  char cause[256];
  put_likely_cause(cause, sizeof cause);
  std::snprintf(text_ + end, sizeof text_ - end, "; %s; see docs/fault-model.md", cause);
  return text_;
}

const char* Diagnostics::other_operation(std::uint64_t ordinal, std::uint32_t rank,
                                         std::uint32_t recorded, std::uint32_t now) {
  return put_difference(
      "operation %llu of rank %u was %s in the first execution, and is %s in the replay. The "
      "program is not deterministic, given what it receives",
      number(ordinal), rank, call(rank, recorded).text, call(rank, now).text);
}

const char* Diagnostics::other_contribution(std::uint64_t ordinal, std::uint32_t rank,
                                            std::uint32_t now, bool stops) {
  return put_difference(
      "operation %llu of rank %u, %s: the replay contributes other bytes than the first execution "
      "did. The program is not deterministic, given what it receives; %s",
      number(ordinal), rank, call(rank, now).text,
      stops ? "with --on-divergence warn the job goes on with the recorded result"
            : "the rank is given the recorded result (further differences are not shown)");
}

const char* Diagnostics::other_message(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t now,
                                       std::uint32_t to, std::uint64_t bytes,
                                       std::uint64_t posted_bytes) {
  return put_difference(
      "operation %llu of rank %u, %s: the replay sends rank %u %llu byte%s, but the first "
      "execution sent %llu byte%s with other contents. The program is not deterministic, given "
      "what it receives",
      number(ordinal), rank, call(rank, now).text, to, number(bytes), plural(bytes),
      number(posted_bytes), plural(posted_bytes));
}

const char* Diagnostics::other_course(std::uint64_t ordinal, std::uint32_t rank, std::uint32_t now,
                                      const Left& left) {
  char what[96] = "";
  switch (left.what) {
    case Left::What::kNothing:
      break;
    case Left::What::kMessages:
      std::snprintf(what, sizeof what, "%llu message%s to rank %u", number(left.count),
                    left.count == 1 ? "" : "s", left.to);
      break;
    case Left::What::kOperations:
      std::snprintf(what, sizeof what, "%llu collective operation%s", number(left.count),
                    left.count == 1 ? "" : "s");
      break;
    case Left::What::kSynchronous:
      std::snprintf(what, sizeof what, "the receive of %llu synchronous message%s",
                    number(left.count), left.count == 1 ? "" : "s");
      break;
  }
  char at[280];
  if (now == kQuestion || now == kEnd) {
    std::snprintf(
        at, sizeof at, "the replay of rank %u %s after operation %llu", rank,
        now == kEnd ? "ends" : "calls a test or a probe that its first execution did not call",
        number(ordinal));
  } else {
    std::snprintf(at, sizeof at, "the replay of rank %u reaches operation %llu, %s,", rank,
                  number(ordinal), call(rank, now).text);
  }
  return put_difference(
      "%s before it has repeated %s of the first execution. The program is not deterministic, "
      "given what it receives",
      at, what);
}

const char* Diagnostics::other_receive(std::uint64_t ordinal, std::uint32_t rank,
                                       std::uint32_t from, std::uint64_t bytes) {
  return put_difference(
      "at operation %llu the replay of rank %u matches a message of rank %u (%llu byte%s) with "
      "another receive than the first execution did. The program is not deterministic, given what "
      "it receives",
      number(ordinal), rank, from, number(bytes), plural(bytes));
}

const char* Diagnostics::other_question(std::uint64_t ordinal, std::uint32_t rank,
                                        const char* recorded, const char* asked) {
  return put_difference(
      "after operation %llu of rank %u: the replay asks %s, but the first execution asked %s. The "
      "program is not deterministic, given what it receives",
      number(ordinal), rank, asked, recorded);
}

const char* Diagnostics::unproven_call(std::uint32_t rank, std::uint32_t now, std::uint32_t other,
                                       std::uint32_t other_call) {
  const CallText there = call(other, other_call);
  char who[64];
  if (other == rank) {
    std::snprintf(who, sizeof who, "its first call from there was");
  } else {
    std::snprintf(who, sizeof who, "no other member calls from there; rank %u calls", other);
  }
  return put(
      "rank %u was restarted from a checkpoint and calls %s, from where it has called only before "
      "its first checkpoint; %s %s. Operations that every incarnation repeats after the load must "
      "be marked: rejoin_bootstrap(key), MPI_Pcontrol(0x524a03, key), or is_bootstrap in rabit; "
      "see docs/checkpoints.md",
      rank, call(rank, now).text, who, there.text);
}

const char* Diagnostics::other_key(std::uint32_t rank, std::uint32_t then, std::uint32_t now) {
  return put(
      "rank %u uses one bootstrap key for two operations, now for %s and before for %s; each "
      "operation needs a key of its own",
      rank, call(rank, now).text, call(rank, then).text);
}

const char* Diagnostics::other_model(std::uint64_t version, std::uint32_t rank, std::uint64_t bytes,
                                     std::uint64_t first_bytes) {
  return put(
      "checkpoint %llu: the global model of rank %u (%llu byte%s) differs from that of rank 0 "
      "(%llu byte%s); data that differ between ranks belong in the local model",
      number(version), rank, number(bytes), plural(bytes), number(first_bytes),
      plural(first_bytes));
}

const char* Diagnostics::other_model_again(std::uint64_t version, std::uint32_t rank, bool stops) {
  return put_difference(
      "checkpoint %llu of rank %u: the replay passes another global model than the first execution "
      "did; %s",
      number(version), rank,
      stops ? "with --on-divergence warn the job goes on" : "further differences are not shown");
}

namespace {

// Returns what differs between two calls whose descriptions are equal.
const char* what_differs(const std::optional<journal::CallEntry>& a,
                         const std::optional<journal::CallEntry>& b) {
  if (!a || !b) return "";
  const Signature &s = a->signature, &t = b->signature;
  if (s.kind != t.kind || s.bytes != t.bytes || s.root != t.root) return "";
  if (s.type != t.type) return ", with another datatype";
  if (s.operation != t.operation) return ", with another reduction operation";
  if (s.layout != t.layout) {
    return ", with other values of arguments that must be equal at all members (counts, "
           "dimensions, edges, info)";
  }
  return ", which failed there because other members disagree";
}

}  // namespace

void Diagnostics::mismatch(bool earlier, std::uint32_t rank, std::uint32_t now, std::uint32_t other,
                           std::uint32_t other_call) {
  set_error(
      "%srank %u calls %s where rank %u calls %s%s: all members of a communicator must make the "
      "same collective calls in the same order",
      earlier ? "in an earlier operation, " : "", rank, call(rank, now).text, other,
      call(other, other_call).text,
      what_differs(peers_.call(rank, now), peers_.call(other, other_call)));
}

void Diagnostics::mismatch_at_checkpoint(std::uint64_t version, std::uint32_t rank,
                                         std::uint32_t now, std::uint32_t other,
                                         std::uint32_t other_call) {
  set_error(
      "rank %u makes checkpoint %llu (%s) where rank %u calls %s: all ranks must make the same "
      "checkpoints at the same places",
      rank, number(version), call(rank, now).text, other, call(other, other_call).text);
}

void Diagnostics::recorded_mismatch() { set_error("the members disagree about this operation"); }

void Diagnostics::truncated(std::uint32_t rank, std::uint32_t now, std::uint32_t from,
                            std::uint64_t bytes, std::uint64_t max_bytes) {
  set_error("%s: rank %u sends %llu byte%s, more than the %llu that rank %u receives",
            call(rank, now).text, from, number(bytes), plural(bytes), number(max_bytes), rank);
}

}  // namespace rejoin::recovery
