// What replays need to know of files beyond the answers that they repeat: which of them the ranks
// have written to, which a replay has filled again, and which it has made in place of lost ones.
// Main thread only. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libc_recording/memory.h"
#include "libc_recording/observation.h"
#include "libc_recording/observation_log.h"

namespace rejoin::libc_recording {

class FileFacts {
 public:
  FileFacts(recovery::Rank& rank, Memory& memory, LibcHead& head);

  // Records for all ranks that a file (OpenedFile::file) was opened with these flags, if for
  // writing.
  void opened(const OpenedFile& file, std::uint32_t flags);
  // Whether another rank of this host has opened this file for writing; `kept`: without emptying
  // it. The first call reads the records of all ranks.
  bool written_elsewhere(std::uint32_t file, bool kept);
  // Whether this rank has opened it for writing into existing contents, other than at their end.
  bool written_in_place(std::uint32_t file) const;

  // Files that this replay fills again, and the path where it has found them. rewritten() copies
  // that path to `path`, if that is not null.
  void set_rewritten(std::uint32_t file, const char* path);
  bool rewritten(std::uint32_t file, char* path, std::size_t room_bytes) const;

  // Ghosts: files that a replay makes in place of those that the first execution has removed or
  // renamed since. If this replay dies, the next one removes them first. Their paths are therefore
  // noted before they are made: absolute, with the identity of what will lie there, or without one
  // if no other process makes anything at such a path.
  void note_aside(const char* path) { note(0, path); }
  void note_ghost(std::uint32_t file, const char* path);
  bool ghost(std::uint32_t file);
  // Gives the notes of replays that died, newest first; *file = 0: whatever lies there. False:
  // there are no more.
  bool noted(std::size_t n, char* path, std::size_t room_bytes, std::uint32_t* file);
  // Called in a woken image: other processes have opened files and made ghosts since.
  void wake();
  // Called when the rank is live: its ghosts are its files from now on.
  void end_replay();

 private:
  struct Note {
    std::uint64_t position;  // of the path in the log
    std::uint32_t bytes;
    std::uint32_t file;
  };

  void note(std::uint32_t file, const char* path);
  void read_notes();
  void read_files_of(std::uint32_t rank, Set& set);

  recovery::Rank& rank_;
  Memory& memory_;
  LibcHead& head_;
  journal::LogWriter<std::uint64_t, engine::ShmHost> files_writer_;
  ByteWriter ghosts_writer_;
  Set written_;            // file << 2 | how this rank has opened it (file_facts.cc)
  Set written_by_others_;  // likewise, for all other ranks
  Set rewritten_;          // file << 32 | index into paths_
  Array<char*> paths_;
  Set ghosts_;
  Array<Note> notes_;
  bool notes_read_ = false;
  bool others_read_ = false;
};

}  // namespace rejoin::libc_recording
