// --log-ops: a line for the user about every operation of a rank, through its agent.
//
//     [0] allreduce (learner.cc:734::LazyInit#4x1) finished version 0, seq 0, take 0.000394 seconds
//
// The call site, bytes of an element x their number, outcome, checkpoints made, operations since
// the last load or checkpoint. "recovered": the journal had the result. docs/ftrun.md describes it
// for users.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdio>

#include "journal/own.h"
#include "recovery/types.h"
#include "wire/messages.h"

namespace rejoin::recovery {

template <class Host>
class OperationLog {
 public:
  explicit OperationLog(Host& host) : host_(host), wanted_(journal::job_of(host)->log_ops != 0) {}

  bool wanted() const { return wanted_; }
  // Called in an image that has been woken, perhaps in a job with other options.
  void look_again() { wanted_ = journal::job_of(host_)->log_ops != 0; }

  // An operation begins. `replayed`: the number of operations answered by the journal so far.
  void begin(const journal::CallEntry& call, std::uint64_t replayed) {
    call_ = call;
    replayed_ = replayed;
    model_bytes_ = 0;
    begin_ns_ = host_.now_ns();
  }

  // Sets the size for the load or checkpoint that has begun: its signature does not contain it.
  void set_model_bytes(std::uint64_t bytes) { model_bytes_ = bytes; }

  // The operation is over.
  void end(Status status, std::uint64_t version, std::uint64_t replayed) {
    const auto kind = static_cast<OpKind>(call_.signature.kind);
    const bool is_model = kind == OpKind::kLoad || kind == OpKind::kCheckpoint;
    const Shape shape = is_model ? Shape{1, model_bytes_} : shape_of(call_.signature);
    const char* how = replayed > replayed_ ? "recovered" : "finished";
    if (status != Status::kOk) how = "failed";
    if (is_model) sequence_ = 0;
    char name[32], text[256];
    put_name(kind, name, sizeof name);
    const int bytes =
        std::snprintf(text, sizeof text,
                      "[%u] %s ({%u:%u:%llx}#%llux%llu) %s version %llu, seq %llu, take %f seconds",
                      host_.rank(), name, host_.rank(), call_.module, number(call_.place),
                      number(shape.element_bytes), number(shape.count), how, number(version),
                      number(sequence_), 1e-9 * static_cast<double>(host_.now_ns() - begin_ns_));
    host_.tell(wire::MessageType::kLog, 0, 0, text, static_cast<std::size_t>(bytes));
    if (!is_model) ++sequence_;
  }

 private:
  static unsigned long long number(std::uint64_t n) { return n; }

  static void put_name(OpKind kind, char* name, std::size_t size) {
    const char* text = name_of(kind);
    if (kind == OpKind::kCheckpoint) text = "checkpoint";
    if (kind == OpKind::kLoad) text = "loadcheckpoint";
    std::snprintf(name, size, "%s", text);
    for (; *name != '\0'; ++name) {
      *name = static_cast<char>(std::tolower(static_cast<unsigned char>(*name)));
    }
  }

  Host& host_;
  bool wanted_;
  journal::CallEntry call_ = {};
  std::uint64_t replayed_ = 0;
  std::uint64_t model_bytes_ = 0;
  std::uint64_t begin_ns_ = 0;
  std::uint64_t sequence_ = 0;  // since the last load or checkpoint
};

}  // namespace rejoin::recovery
