// The messages between a rank and its agent over the agent's unix socket (SOCK_SEQPACKET, abstract
// name). Each message is one datagram; texts are UTF-8, not terminated.
//
// The first datagram of a connection is kRegister, kImage, kWoken, kMoves or kForeignAbi, and its
// text begins with the job's secret (kSecretBytes). Without the secret the answer is kRefused, and
// the message has no other effect.
//
//   kRegister     rank -> agent  at load when the program itself is linked against libmpi.so.40,
//                                else in MPI_Init
//   kWelcome      agent -> rank  carries one descriptor: the segment; text = device and number of
//                                what it was given for standard input, output and error
//   kRefused      agent -> rank  text = why (another process is this rank; wrong secret; too late)
//   kInitialized  rank -> agent  MPI_Init is about to return
//   kLive         rank -> agent  first operation that no record answered; value = records
//                                replayed, code = the checkpoint that it has loaded, 0: none;
//                                instead of a text: Replay
//   kFinalized    rank -> agent  MPI_Finalize is about to return: the exit code is now the
//                                program's; code and Replay as in kLive, of a rank that was not
//                                live; no Replay in a first incarnation
//   kAbort        rank -> agent  MPI_Abort(code) or a fatal MPI error (text says which and where)
//   kDiverged     rank -> agent  the rank cannot go on and no restart would help (its replay asks
//                                for something else than the first time; no memory); text
//   kLimit        rank -> agent  the journal is full, and this rank has nothing to repeat from it
//   kNotice       rank -> agent  one line for the user (text). value = 0: it concerns this rank;
//                                else a number of what it concerns in the whole job, of which the
//                                user is shown the first line alone
//   kLog          rank -> agent  one line about an operation that is over (--log-ops), shown as it
//                                is (text)
//   kMark         rank -> agent  the rank has printed all that it prints before checkpoint
//                                value / 2 (even), or goes on behind that checkpoint (odd); it
//                                waits until the agent has written value to its output_mark
//                                or, with kMarkOfImage, before the image with this number is made;
//                                code = unread bytes of its standard input, and
//                                kMarkRefused in the answer: not yet, it still prints what its
//                                predecessor did
//   kCommitted    rank -> agent  checkpoint value is committed (rank 0, tell_committed); code =
//                                1: a version of it is kept
//   kSnapshotDue  rank -> agent  a snapshot is requested, because the journal has grown; code =
//                                1: it is nearly full, and the rank waits for the image
//   kJournalStep  rank -> agent  the journal is full or nearly full, and has grown by a step: the
//                                agent gives all ranks a notice
//   kNotFrozen    rank -> agent  no image `value` of it can be made; text = why;
//                                empty: only this one cannot
//   kImage        image -> agent an image, the first datagram of a connection: value = its number,
//                                incarnation = that of the process that it is of
//   kWake         agent -> image become the rank's next incarnation; carries three descriptors for
//                                standard input, output and error; code = 1: what was done to
//                                files since the image did not happen
//   kForked       image -> agent value = process id of the clone that does so; 0: it could not be
//                                made, code = errno. incarnation = that of the kWake
//   kWoken        clone -> agent the first datagram of its connection: asks to be the rank, as
//                                `incarnation`. The answer is kWelcome or kRefused. With a text it
//                                cannot go on, and says why
//   kWrite        agent -> image write a clone of you to the file it carries, of set `incarnation`
//   kWriting      image -> agent value = process id of the clone that does so; 0: it could not
//                                be made, code = errno. incarnation = that of the kWrite.
//                                The clone exits with 0 when all is written
//   kNotWritten   clone -> agent over its image's connection: why it cannot be written (text, the
//                                predicate of a sentence); incarnation likewise
//   kMoves        clone -> agent the first datagram of its connection: asks to be the rank in place
//                                of process `value`, as the same incarnation. The answer is
//                                kWelcome or kRefused
//   kStay         agent -> rank  another process is the rank: this one is its keeper from now on
//   kSignalled    keeper -> agent it was sent signal `code`, which is for the rank
//   kEnd          agent -> keeper exit with `code`
//   kFault        rank -> agent  signal `code` is about to end it; text = its si_code in decimal,
//                                the address of the fault and the stack pointer in hexadecimal;
//                                then a line for each frame, the innermost first: where it returns
//                                to in its module (of the first one a byte behind the instruction),
//                                the module's build id (-: it has none), both in hexadecimal, and
//                                the module's path
//   kForeignAbi   rank -> agent  the process is linked against another MPI; secret, its soname
//
// In texts, a call site is written as {RANK:MODULE:PLACE} with MODULE an index into the rank's
// module log and PLACE in hexadecimal; the agent replaces it by file:line::function.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rejoin::wire {

enum class MessageType : std::uint32_t {
  kRegister = 1,
  kWelcome,
  kRefused,
  kInitialized,
  kLive,
  kFinalized,
  kAbort,
  kDiverged,
  kLimit,
  kNotice,
  kForeignAbi,
  kMark,
  kCommitted,
  kLog,
  kSnapshotDue,
  kJournalStep,
  kNotFrozen,
  kImage,
  kWake,
  kForked,
  kWoken,
  kWrite,
  kWriting,
  kNotWritten,
  kMoves,
  kStay,
  kSignalled,
  kEnd,
  kFault,
};

inline constexpr std::uint64_t kMarkOfImage = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kMarkRefused = std::uint64_t{1} << 62;

inline constexpr std::uint32_t kMaxText = 4000;
inline constexpr std::size_t kSecretBytes = 32;

struct Message {
  MessageType type;
  std::uint32_t rank;
  std::int32_t code;          // kAbort, kLive, kFinalized, kMark, kForked, kSignalled, kEnd, kFault
  std::uint32_t incarnation;  // kWelcome
  std::uint64_t value;        // kLive: operations replayed
  std::uint32_t text_bytes;
  char text[kMaxText];
};
// What kLive and kFinalized carry in place of a text.
struct Replay {
  std::uint64_t ns;  // in calls of MPI since MPI_Init, until the rank was live; from samples
};
inline constexpr std::uint32_t kMessageHeadBytes = 28;  // a datagram has text_bytes more
static_assert(offsetof(Message, text) == kMessageHeadBytes);

// The environment of a rank, which is the same in every incarnation.
inline constexpr const char* kEnvSocket = "REJOIN_SOCKET";  // abstract name, without its NUL
inline constexpr const char* kEnvRank = "REJOIN_RANK";
inline constexpr const char* kEnvSecret = "REJOIN_SECRET";
inline constexpr const char* kEnvProgram = "REJOIN_PROGRAM";  // the program's number (MPI_APPNUM)
inline constexpr const char* kEnvLibcRecording =
    "REJOIN_LIBC_RECORDING";  // "off": no observations of libc
// Set for a process that is to become a written image (process_image/restorer.cc): "INCARNATION
// PATH".
inline constexpr const char* kEnvRestore = "REJOIN_RESTORE";
// The directory of the rank's file log (wire/file_log.h). Not set: changes of files are not logged.
inline constexpr const char* kEnvFileLog = "REJOIN_FILE_LOG";

}  // namespace rejoin::wire
