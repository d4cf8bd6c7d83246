// The small languages of ftrun's command line.
//
//     kill  := RANK "@" point ["#" INCARNATION]    INCARNATION from 0, default 0
//     point := (ORDINAL | "init" | "finalize") ["." moment]     ORDINAL from 1
//     moment:= "before" | "inside" | "after"       default inside
//     size  := DIGITS [("K" | "M" | "G" | "T") ["i"] ["B"]]     powers of 1024, any case
//     hosts := HOST [":" N] {"," HOST [":" N]}     N ranks, from 1
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "journal/layout.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

struct KillOrder {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  journal::PointKind kind = journal::PointKind::kOperation;
  journal::Moment moment = journal::Moment::kInside;
  std::uint64_t ordinal = 0;  // 0 for init and finalize
  bool operator==(const KillOrder&) const = default;
};

// One --kill. Errors name the part that is wrong; exit code kExitUsage.
Result<KillOrder> parse_kill(std::string_view text);
// Returns the order in the syntax of --kill: "2@1000.inside#0".
std::string to_text(const KillOrder& order);

// Returns the communicator's name from the view of `rank`: "MPI_COMM_WORLD", "MPI_COMM_SELF", or
// "communicator 0123456789abcdef" for one that the program has made.
std::string communicator_text(std::uint64_t context, std::uint32_t rank);

// Parses a whole number of decimal digits from `least` to `most`. `what`: the noun for the error,
// which also names the option, its value and the range. Exit code kExitUsage.
Result<std::uint64_t> parse_number(const std::string& option, const std::string& text,
                                   const std::string& what, std::uint64_t least,
                                   std::uint64_t most);

// A host, and how many ranks it is to run; nothing: the list does not say.
struct HostSlots {
  std::string name;  // may have "user@" in front
  std::optional<std::uint32_t> slots;
  bool operator==(const HostSlots&) const = default;
};

// The text as one word of a command for a POSIX shell.
std::string shell_word(const std::string& text);

// The numbers of tasks of SLURM_TASKS_PER_NODE, by node: "2(x3),1" are 2, 2, 2, 1. At most
// kMaxRanks nodes. Nothing: it is no such list.
std::optional<std::vector<std::uint32_t>> tasks_of_slurm(std::string_view text);

// Bytes. Errors say what a size is; 0 is an error. Exit code kExitUsage.
Result<std::uint64_t> parse_size_bytes(std::string_view text);
// "512 MiB", "1.5 GiB"; exact numbers of bytes below 1 KiB.
std::string size_text(std::uint64_t bytes);
// "0123456789abcdef": all 16 digits.
std::string hex_text(std::uint64_t value);
// "2026-11-24 03:15:00", in local time. `wall_ns`: since 1970.
std::string time_text(std::uint64_t wall_ns);

// Returns the hosts of "a:4,user@b:2,localhost". Nothing: it is no list of hosts.
std::optional<std::vector<HostSlots>> hosts_of_list(std::string_view text);
// Returns the hosts of a file with lines of HOST, HOST:N or HOST slots=N, as Open MPI and MPICH
// read it. user=NAME is as NAME@HOST; their settings about processors are ignored.
// Errors say in which line.
Result<std::vector<HostSlots>> hosts_of_file(std::string_view text);
// Whether a name in such a list is the machine called `own_name`.
bool is_this_host(std::string_view name, std::string_view own_name);

}  // namespace rejoin::launcher
