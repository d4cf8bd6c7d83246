// What must be true of a job, judged from outside: only from the bytes that programs were given,
// from when they entered and returned, and from the segment's published words.
//
//   I1        the outcome of a key is the same bytes at every member, in every incarnation,
//             and (untagged) those of the run without failures
//   I2        a call that has returned has a published record
//   barrier   no member returns from a synchronising operation before every member has entered it
//   I5        published words never go back, and only their owner moves them
//   messages  message k arrives with the bytes that were posted as message k, and none is left over
//   load      a load gives the newest version that is due, with the models that were given for it;
//             the versions that a rank may still go back to are there
//   journal   at the end, and when a rank has loaded a version, every record that is still needed
//             refers to the bytes that the program was given
//
// Functions return nullptr, or what is broken (valid until the next call).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "journal/layout.h"
#include "message_oracle.h"
#include "recovery/rank.h"

namespace rejoin::sim {

inline constexpr std::uint32_t kMaxSimRanks = 256;

std::uint64_t hash_of_bytes(const void* data, std::size_t bytes);

// One operation of a communicator, as the oracle knows it.
struct Key {
  bool failed = false;      // some member got kMismatch
  bool replicated = false;  // has the same outcome at all members, which follows
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  std::array<std::uint64_t, kMaxSimRanks / 64> entered = {};  // one bit for each member
  std::vector<std::uint64_t> own;  // channel operations: each member's outcome; 0 = none yet
};

// The position of a program in one communicator.
struct Count {
  std::uint64_t context;  // 0: free
  std::uint64_t next;     // sequence number of the next operation
  // The same number without the operations that the bootstrap phase of a later incarnation has
  // executed again. It identifies an operation of the program, whatever deaths there were.
  std::uint64_t number;
  std::uint64_t bootstrap;  // number of the first operation in the bootstrap phase
  std::uint64_t asked;      // operations in the bootstrap phase of this incarnation
};

struct Group {
  std::uint64_t context = 0;
  std::vector<std::uint32_t> members;          // world ranks
  std::vector<journal::ContextBlock*> blocks;  // of each member; null until it has created its own
  std::vector<std::uint64_t> tails;            // of each member, as last seen
  // Number of operations that each member has entered so far, in any incarnation.
  std::vector<std::uint64_t> operations;
  std::vector<std::uint64_t> born;  // the newest version of each member when it created its own
  std::deque<Key> keys;
  const Group* reference = nullptr;  // the same group in the run without failures

  // False: not created yet, or its block was reclaimed and may belong to another context.
  bool has_block(std::size_t member) const {
    return blocks[member] != nullptr && blocks[member]->context == context;
  }
};

class Oracle {
 public:
  // `reference`: the oracle of a finished run without failures; null: there is none yet.
  void begin(std::byte* base, const Oracle* reference);

  Group& group(std::uint64_t context, const std::uint32_t* members, std::uint32_t size);
  void made(Group& g, std::uint32_t member, journal::ContextBlock* block);

  void entered(Group& g, std::uint64_t sequence, std::uint32_t member);
  // `number`: the sequence number in the run without failures.
  const char* returned_replicated(Group& g, std::uint64_t sequence, std::uint64_t number,
                                  std::uint32_t member, bool failed, bool synchronises,
                                  const void* data, std::size_t bytes);
  const char* returned_channel(Group& g, std::uint64_t sequence, std::uint64_t number,
                               std::uint32_t member, bool failed, std::uint64_t hash);

  // Hashes of models.
  struct Models {
    std::uint64_t global = 0, local = 0;
    bool operator==(const Models&) const = default;
  };
  // A rank is about to make a checkpoint. `state`: that of its program; counts[0..count): its
  // positions.
  const char* saves(std::uint32_t rank, std::uint64_t v, std::uint64_t state, const Models& models,
                    const Count* counts, std::size_t count);
  const char* saved(std::uint32_t rank, std::uint64_t v);
  // The rank enters checkpoint `v`, perhaps one that is only counted.
  const char* comes_to(std::uint32_t rank, std::uint64_t v, std::uint64_t state);
  // Returns whether rank `rank` has passed these models to version `v`. global: null: not compared.
  bool gave(std::uint32_t rank, std::uint64_t v, const void* global, std::size_t global_bytes,
            const void* local, std::size_t local_bytes) const;
  // `committed`: the committed version before the rank began to load.
  const char* loaded(std::uint32_t rank, std::uint64_t committed, const recovery::Loaded& loaded);
  std::uint64_t committed() const;  // the newest version that all ranks have prepared
  std::uint64_t prepared(std::uint32_t rank) const;
  // Called at the end of the program.
  const char* finished(std::uint32_t rank, std::uint64_t state);

  // Message k from one world rank to another is about to be sent. Returns false if it has been
  // posted already.
  bool offered(std::uint32_t from, std::uint32_t to, std::uint64_t k, std::uint64_t hash);
  const char* posted(std::uint32_t from, std::uint32_t to, std::uint64_t k);
  // *again: whether an earlier incarnation has received it as well.
  const char* received(std::uint32_t from, std::uint32_t to, std::uint64_t k, std::uint64_t hash,
                       bool* again);

  // Called after a turn of `rank`.
  const char* words_after_turn(std::uint32_t rank);
  // all_back: all ranks have gone back, and with them the versions of their checkpoints.
  const char* words_after_agent(bool all_back);
  // Called after the end. `complete`: no member disagreed, so everything that was sent was
  // received. `others`: the oracle of messages between two ranks.
  const char* end(bool complete, const MessageOracle& others);

  const std::map<std::uint64_t, Group>& groups() const { return groups_; }
  // Returns whether only members with `done` have a record of the operation.
  bool only_done_hold(const Group& g, std::uint64_t sequence, const std::vector<bool>& done) const;

 private:
  struct Message {
    std::uint64_t offered = 0;
    std::uint64_t received = 0;
  };
  struct Channel {
    bool watched = false;          // tail and consumed have the values of the last turn
    std::deque<Message> messages;  // by number; messages of point-to-point calls are empty
    std::uint64_t offered = 0;     // of collectives
    std::uint64_t tail = 0;
    std::uint64_t consumed = 0;
  };
  // A version of a rank, as the incarnation that prepared it has passed it.
  struct Version {
    std::uint64_t state = 0;
    Models models;
    std::map<std::uint64_t, std::uint64_t> next;  // by context: sequence number
  };
  const char* check_versions(std::uint32_t rank);
  bool is_kept(const Group& g, std::uint32_t member, std::uint64_t sequence,
               std::uint64_t from) const;
  const char* check_records(const Group& g, std::uint32_t member, std::uint64_t from);
  const char* broken(const char* format, ...) __attribute__((format(printf, 2, 3)));
  const char* check_tail(Group& g, std::uint32_t member, std::uint32_t mover);
  const char* check_channels(std::uint32_t rank);
  const char* check_journal(const Group& g);
  journal::Log& log(std::uint32_t from, std::uint32_t to);
  std::uint64_t consumed(std::uint32_t by, std::uint32_t from);
  bool is_posted(std::uint32_t from, std::uint32_t to, std::uint64_t k);

  std::byte* base_ = nullptr;
  const Oracle* reference_ = nullptr;
  std::map<std::uint64_t, Group> groups_;
  std::vector<std::vector<std::pair<Group*, std::uint32_t>>> groups_of_;  // of each world rank
  std::map<std::pair<std::uint32_t, std::uint32_t>, Channel> channels_;   // from, to
  std::vector<std::map<std::uint64_t, Version>> versions_;                // of each rank
  std::vector<std::uint64_t> prepared_, safe_, states_;                   // likewise
  std::vector<std::uint32_t> incarnations_;
  std::uint32_t epoch_ = 0;
  char text_[400] = "";
};

}  // namespace rejoin::sim
