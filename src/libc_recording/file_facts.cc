#include "libc_recording/file_facts.h"

#include <fcntl.h>

#include <cstring>

namespace rejoin::libc_recording {
namespace {

// How a file was opened for writing.
constexpr std::uint64_t kEmptied = 0, kKept = 1, kInPlace = 3;
constexpr unsigned kHowBits = 2;

}  // namespace

FileFacts::FileFacts(recovery::Rank& rank, Memory& memory, LibcHead& head)
    : rank_(rank),
      memory_(memory),
      head_(head),
      files_writer_(rank.host(), rank.region(), head.files, true),
      ghosts_writer_(rank.host(), rank.region(), head.ghosts, true) {
  read_files_of(rank.rank(), written_);
}

void FileFacts::opened(const OpenedFile& file, std::uint32_t flags) {
  if ((flags & O_ACCMODE) == O_RDONLY) return;
  const bool emptied = (flags & (O_TRUNC | O_EXCL)) != 0;
  const bool in_place = !emptied && (flags & O_APPEND) == 0 && file.size_bytes > 0;
  const std::uint64_t item = std::uint64_t{file.file} << kHowBits | (emptied    ? kEmptied
                                                                     : in_place ? kInPlace
                                                                                : kKept);
  if (written_.has(item)) return;
  std::uint64_t* place = files_writer_.next();
  if (place == nullptr) memory_.journal_full();
  *place = item;
  files_writer_.publish(journal::Step::kObserve);
  written_.insert(memory_, item);
}

void FileFacts::read_files_of(std::uint32_t rank, Set& set) {
  const auto log = journal::PeerView(rank_.host()).observations(rank);
  LibcHead* head = head_of(log);
  if (head == nullptr) return;
  const journal::LogView<std::uint64_t> files(log.bytes(0), head->files);
  const std::uint64_t tail = files.tail();
  for (std::uint64_t i = 0; i < tail; ++i) set.insert(memory_, *files.at(i));
}

bool FileFacts::written_elsewhere(std::uint32_t file, bool kept) {
  if (!others_read_) {
    others_read_ = true;
    for (std::uint32_t r = 0; r < rank_.size(); ++r) {
      if (r != rank_.rank()) read_files_of(r, written_by_others_);
    }
  }
  const std::uint64_t item = std::uint64_t{file} << kHowBits;
  return written_by_others_.has(item | kKept) || written_by_others_.has(item | kInPlace) ||
         (!kept && written_by_others_.has(item | kEmptied));
}

bool FileFacts::written_in_place(std::uint32_t file) const {
  return written_.has(std::uint64_t{file} << kHowBits | kInPlace);
}

void FileFacts::set_rewritten(std::uint32_t file, const char* path) {
  char known[4096];  // PATH_MAX
  if (rewritten(file, known, sizeof known) && std::strcmp(known, path) == 0) return;
  char* kept = memory_.make_array<char>(std::strlen(path) + 1);
  std::strcpy(kept, path);
  rewritten_.insert(memory_, std::uint64_t{file} << 32 | paths_.size);
  paths_.add(memory_, kept);
}

bool FileFacts::rewritten(std::uint32_t file, char* path, std::size_t room_bytes) const {
  const std::uint64_t item = rewritten_.from(std::uint64_t{file} << 32);
  if (item >> 32 != file) return false;
  if (path != nullptr) {
    const char* found = paths_.items[item & 0xffffffff];
    const std::size_t bytes = std::min(std::strlen(found), room_bytes - 1);
    std::memcpy(path, found, bytes);
    path[bytes] = '\0';
  }
  return true;
}

void FileFacts::note_ghost(std::uint32_t file, const char* path) {
  if (!ghost(file)) ghosts_.insert(memory_, file);
  note(file, path);
}

bool FileFacts::ghost(std::uint32_t file) {
  if (!notes_read_) read_notes();
  return ghosts_.has(file);
}

bool FileFacts::noted(std::size_t n, char* path, std::size_t room_bytes, std::uint32_t* file) {
  if (!notes_read_) read_notes();
  if (n >= notes_.size) return false;
  const Note& note = notes_.items[notes_.size - 1 - n];
  const std::size_t bytes = std::min<std::size_t>(note.bytes, room_bytes - 1);
  ObservationReader(ghosts_writer_.view()).copy(note.position, path, bytes);
  path[bytes] = '\0';
  *file = note.file;
  return true;
}

void FileFacts::end_replay() {
  if (head_.ghosts.tail.load(std::memory_order_relaxed) > 0) note(0, "");
}

void FileFacts::wake() {
  files_writer_.rebase();
  ghosts_writer_.rebase();
  read_files_of(rank_.rank(), written_);
  ghosts_.size = notes_.size = 0;
  rewritten_.size = paths_.size = 0;  // by a replay of what came before the image
  notes_read_ = others_read_ = false;
}

void FileFacts::note(std::uint32_t file, const char* path) {
  const std::size_t bytes = std::strlen(path);
  std::byte head[16];
  const std::size_t head_bytes = put_varint(put_varint(head, file), bytes) - head;
  if (!append(ghosts_writer_, head, head_bytes) || !append(ghosts_writer_, path, bytes)) {
    memory_.journal_full();
  }
  ghosts_writer_.show(journal::Step::kObserve);
}

void FileFacts::read_notes() {
  notes_read_ = true;
  ObservationReader log(ghosts_writer_.view());
  std::uint32_t file, bytes;
  while (log.next_note(&file, &bytes)) {
    if (file == 0 && bytes == 0) {
      ghosts_.size = notes_.size = 0;
      continue;
    }
    if (file != 0) ghosts_.insert(memory_, file);
    notes_.add(memory_, {log.position(), bytes, file});
    log.skip(bytes);
  }
}

}  // namespace rejoin::libc_recording
