#include "libc_recording/observations.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "engine/transport/shm/host.h"
#include "recovery/hash.h"

namespace rejoin::libc_recording {
namespace {

constexpr std::size_t kLargestResident = 2;  // field of getrusage that is a maximum, not a count

std::int64_t ticks_per_us(Series s) {
  switch (s) {
    case Series::kTime:
    case Series::kTimes:
    case Series::kUsageSelf:
    case Series::kUsageChildren:
    case Series::kUsageThread:
      return 0;
    case Series::kTimeOfDay:
    case Series::kProcessor:
      return 1;
    default:
      return 1000;
  }
}

}  // namespace

const char* name_of(ObservationKind kind) {
  static constexpr const char* kNames[] = {
      "preparation", "access", "stat",  "statx", "open",    "unlink",  "remove",
      "rmdir",       "rename", "mkdir", "link",  "symlink", "mkstemp", "random bytes"};
  constexpr auto kFirst = static_cast<std::size_t>(ObservationKind::kAbout);
  static_assert(kFirst + std::size(kNames) ==
                static_cast<std::size_t>(ObservationKind::kRandom) + 1);
  const std::size_t i = static_cast<std::size_t>(kind) - kFirst;
  return i < std::size(kNames) ? kNames[i] : "(unknown)";
}

const char* name_of(Series series) {
  static constexpr const char* kNames[] = {"time",      "gettimeofday", "clock",     "times",
                                           "getrusage", "getrusage",    "getrusage", "MPI_Wtime"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Series::kClock0));
  const auto i = static_cast<std::size_t>(series);
  return i < std::size(kNames) ? kNames[i] : "clock_gettime";
}

template <class Host>
Observations<Host>::Observations(recovery::BasicRank<Host>& rank)
    : rank_(rank),
      header_(engine::header_of(rank.host().base())),
      writer_(rank.host(), rank.region(), rank.observation_log()),
      reader_(rank.host().base(), rank.observation_log()),
      clocks_(make_array<Clock>(kSeriesCount)) {
  grow_names();
}

// ------------------------------------------------------------------------------------------ recall

// Makes `current_` the record that answers the next question. False: there is none any more.
template <class Host>
bool Observations<Host>::peek() {
  Observation next;
  while (left_ == 0) {
    if (!reader_.next(&next)) {
      live_ = true;
      if (notes_read_) note_made(0, "");
      return false;
    }
    if (next.kind == ObservationKind::kRepeat) {
      left_ = next.repeats;
    } else if (next.kind == ObservationKind::kName) {
      char text[4096];  // no path is longer
      const std::uint32_t bytes = std::min<std::uint32_t>(next.data_bytes, sizeof text);
      reader_.copy(next.data_position, text, bytes);
      add_name(XXH3_64bits(text, bytes), next.data_position, bytes);
    } else if (next.kind != ObservationKind::kMade) {
      current_ = next;
      left_ = 1;
    }
  }
  return true;
}

template <class Host>
void Observations<Host>::skip_to(std::uint64_t position) {
  skipped_ = true;
  while (!live_ && reader_.position() < position && peek()) {
    given_ += left_;
    left_ = 0;
  }
}

template <class Host>
bool Observations<Host>::recall_slowly(Series series, std::int64_t* values) {
  if (!peek()) return false;
  if (current_.series != series) {
    if (is_set_up()) return false;
    diverge(name_of(series));
  }
  std::memcpy(values, reader_.values(series), fields_of(series) * sizeof *values);
  --left_;
  ++given_;
  return true;
}

template <class Host>
bool Observations<Host>::recall_slowly(Event& e) {
  if (!peek()) return false;
  std::uint64_t hash;
  const bool same = current_.kind == e.kind && current_.detail == e.detail &&
                    current_.name == (e.name != nullptr ? find_name(e.name, &hash) : 0) &&
                    (e.other == nullptr || current_.other == find_name(e.other, &hash));
  if (!same && is_set_up()) return false;
  if (!same) {
    char asked[512];
    std::snprintf(asked, sizeof asked, "%s of \"%.200s\" (0x%x)", name_of(e.kind),
                  e.name != nullptr ? e.name : "", e.detail);
    diverge(asked);
  }
  e.error = current_.error;
  e.data_bytes = current_.data_bytes;
  reader_.copy(current_.data_position, e.data, std::min(e.data_bytes, e.room_bytes));
  --left_;
  ++given_;
  return true;
}

template <class Host>
void Observations<Host>::describe(const Observation& o, char* text, std::size_t size) {
  if (o.kind == ObservationKind::kSeries) {
    std::snprintf(text, size, "%s", name_of(o.series));
    return;
  }
  char name[201];
  text_of(o.name, name, sizeof name);
  std::snprintf(text, size, "%s of \"%s\" (0x%x)", name_of(o.kind), name, o.detail);
}

template <class Host>
void Observations<Host>::diverge(const char* asked) {
  char then[512], text[1200];
  describe(current_, then, sizeof then);
  std::snprintf(
      text, sizeof text,
      "observation %llu of rank %u was %s; its replay asks for %s. The program does not do "
      "the same again when it sees the same; see docs/fault-model.md",
      static_cast<unsigned long long>(given_ + 1), rank_.rank(), then, asked);
  rank_.diverged(text);
}

// ------------------------------------------------------------------------------------------ record

// Nothing is kept any more once the journal has met its limit.
template <class Host>
bool Observations<Host>::recording() {
  return header_->limit_reached.load(std::memory_order_relaxed) == 0;
}

template <class Host>
void Observations<Host>::record(Series series, std::int64_t* values) {
  Clock& clock = clocks_[static_cast<std::size_t>(series)];
  std::int64_t* last = reader_.values(series);
  const std::size_t fields = fields_of(series);
  if (!clock.live) continue_clock(series, clock, values);
  for (std::size_t i = 0; i < fields; ++i) values[i] += clock.offset[i];
  if (fields == kMaxFields) {
    values[kLargestResident] = std::max(values[kLargestResident], last[kLargestResident]);
  }
  if (!recording() || (skipped_ && !live_)) return;
  if (fields == 1 && too_fine(series, clock, values[0], last[0])) values[0] = last[0];
  if (last_series_ == series && std::equal(values, values + fields, last)) return repeat();

  std::byte elsewhere[kLongestHead];
  std::byte* in_place = writer_.room(kLongestHead);
  std::byte* head = in_place != nullptr ? in_place : elsewhere;
  std::byte* end = head;
  *end++ = static_cast<std::byte>(static_cast<std::size_t>(ObservationKind::kSeries) +
                                  static_cast<std::size_t>(series));
  for (std::size_t i = 0; i < fields; ++i) {
    end = put_delta(end, values[i], last[i]);
    last[i] = values[i];
  }
  if (in_place != nullptr) {
    writer_.advance(end - head);
  } else {
    append(head, end - head);
  }
  writer_.publish();
  last_series_ = series;
  last_event_bytes_ = 0;
  repeat_word_ = nullptr;
}

// The processor time of a new process begins at zero, what it caught up with included.
template <class Host>
void Observations<Host>::continue_clock(Series series, Clock& clock, std::int64_t* values) {
  clock.live = true;
  if (given_ == 0) return;
  const std::int64_t* last = reader_.values(series);
  const std::size_t fields = fields_of(series);
  for (std::size_t i = 0; i < fields; ++i) {
    const bool maximum = fields == kMaxFields && i == kLargestResident;
    if (values[i] < last[i] && !maximum) clock.offset[i] = last[i] - values[i];
  }
}

template <class Host>
bool Observations<Host>::too_fine(Series series, Clock& c, std::int64_t now, std::int64_t last) {
  const bool polled = now >= c.previous && now - c.previous < kPollGap_us * ticks_per_us(series);
  c.previous = now;
  if (!polled) {
    c.polls = 0;
    c.poll_began = now;
    return false;
  }
  if (c.polls < kPollsFine) {
    ++c.polls;
    return false;
  }
  return now >= last && now - last < (now - c.poll_began) / kPollGrain;
}

template <class Host>
void Observations<Host>::record(const Event& e) {
  if (!recording() || (skipped_ && !live_)) return;
  const std::uint32_t names = names_end_;
  const std::uint32_t name = e.name != nullptr ? intern(e.name) : 0;
  const std::uint32_t other = e.other != nullptr ? intern(e.other) : 0;
  std::byte head[kLongestHead];
  std::byte* end = head;
  *end++ = static_cast<std::byte>(e.kind);
  for (const std::uint64_t v : {std::uint64_t{name}, std::uint64_t{other}, std::uint64_t{e.detail},
                                static_cast<std::uint64_t>(e.error), std::uint64_t{e.data_bytes}}) {
    end = put_varint(end, v);
  }
  if (names == names_end_ && same_as_last(head, end - head, e)) return repeat();
  last_event_ = writer_.position();
  last_event_bytes_ = end - head + e.data_bytes;
  append(head, end - head);
  append(e.data, e.data_bytes);
  writer_.publish();
  last_series_ = Series::kEnd;
  repeat_word_ = nullptr;
}

template <class Host>
bool Observations<Host>::same_as_last(const std::byte* head, std::size_t head_bytes,
                                      const Event& e) {
  if (last_event_bytes_ != head_bytes + e.data_bytes) return false;
  const std::byte* part[] = {head, static_cast<const std::byte*>(e.data)};
  const std::size_t part_bytes[] = {head_bytes, e.data_bytes};
  std::uint64_t position = last_event_;
  for (int p = 0; p < 2; ++p) {
    std::byte before[256];
    for (std::size_t done = 0; done < part_bytes[p];) {
      const std::size_t n = std::min(sizeof before, part_bytes[p] - done);
      reader_.copy(position, before, n);
      if (std::memcmp(before, part[p] + done, n) != 0) return false;
      position += n;
      done += n;
    }
  }
  return true;
}

template <class Host>
void Observations<Host>::repeat() {
  if (repeat_word_ != nullptr) {
    const std::uint32_t count = repeat_word_->load(std::memory_order_relaxed);
    if (count != ~std::uint32_t{0})
      return repeat_word_->store(count + 1, std::memory_order_release);
  }
  constexpr std::uint32_t kOnce = 1;
  constexpr std::byte kPads[sizeof kOnce] = {};
  const std::byte kind{static_cast<std::uint8_t>(ObservationKind::kRepeat)};
  append(&kind, 1);
  append(kPads, -writer_.position() % sizeof kOnce);
  const std::uint64_t position = writer_.position();
  append(&kOnce, sizeof kOnce);
  writer_.publish();
  repeat_word_ = reinterpret_cast<std::atomic<std::uint32_t>*>(
      engine::log_at<std::byte>(rank_.host().base(), rank_.observation_log(), position));
}

template <class Host>
void Observations<Host>::append(const void* data, std::size_t bytes) {
  if (!writer_.put(data, bytes)) out_of_memory();
}

// ------------------------------------------------------------------------------------------- names

template <class Host>
std::uint32_t Observations<Host>::find_name(const char* name, std::uint64_t* hash) {
  *hash = XXH3_64bits(name, std::strlen(name));
  for (std::uint64_t i = *hash;; ++i) {
    const std::uint32_t n = buckets_[i % (2 * names_room_)];
    if (n == 0 || names_[n].hash == *hash) return n;
  }
}

template <class Host>
std::uint32_t Observations<Host>::intern(const char* name) {
  std::uint64_t hash;
  const std::uint32_t known = find_name(name, &hash);
  if (known != 0) return known;
  const auto bytes = static_cast<std::uint32_t>(std::strlen(name));
  std::byte head[16] = {static_cast<std::byte>(ObservationKind::kName)};
  append(head, put_varint(head + 1, bytes) - head);
  const std::uint64_t position = writer_.position();
  append(name, bytes);
  add_name(hash, position, bytes);
  return names_end_ - 1;
}

template <class Host>
void Observations<Host>::add_name(std::uint64_t hash, std::uint64_t position, std::uint32_t bytes) {
  if (names_end_ == names_room_) grow_names();
  names_[names_end_] = {hash, position, bytes, false};
  std::uint64_t i = hash;
  while (buckets_[i % (2 * names_room_)] != 0) ++i;
  buckets_[i % (2 * names_room_)] = names_end_++;
}

template <class Host>
void Observations<Host>::grow_names() {
  const std::uint32_t before = names_room_;
  Name* old_names = names_;
  std::uint32_t* old_buckets = buckets_;
  names_room_ = before == 0 ? 64 : 2 * before;
  names_ = make_array<Name>(names_room_);
  buckets_ = make_array<std::uint32_t>(2 * names_room_);
  const std::uint32_t names = names_end_;
  names_end_ = 1;
  for (std::uint32_t n = 1; n < names; ++n) {
    const Name was = old_names[n];
    add_name(was.hash, was.position, was.bytes);
    names_[n].told = was.told;
  }
  rank_.arena().release(old_names, before * sizeof(Name));
  rank_.arena().release(old_buckets, 2 * before * sizeof(std::uint32_t));
}

template <class Host>
bool Observations<Host>::told(const char* name) {
  std::uint64_t hash;
  Name& n = names_[find_name(name, &hash)];
  const bool before = n.told;
  n.told = true;
  return before;
}

template <class Host>
void Observations<Host>::text_of(std::uint32_t name, char* text, std::size_t size) {
  std::size_t bytes = 0;
  if (name > 0 && name < names_end_) {
    bytes = std::min<std::size_t>(names_[name].bytes, size - 1);
    reader_.copy(names_[name].position, text, bytes);
  }
  text[bytes] = '\0';
}

// ---------------------------------------------------------------------- what the logs say of files

template <class Host>
void Observations<Host>::set_rewritten(std::uint32_t file, const char* path) {
  std::uint64_t hash;
  add(rewritten_, std::uint64_t{file} << 32 | find_name(path, &hash));
}

template <class Host>
bool Observations<Host>::rewritten(std::uint32_t file, char* path, std::size_t room_bytes) {
  const std::uint64_t item = rewritten_.from(std::uint64_t{file} << 32);
  if (item >> 32 != file) return false;
  if (path != nullptr) text_of(static_cast<std::uint32_t>(item), path, room_bytes);
  return true;
}

template <class Host>
void Observations<Host>::set_ghost(std::uint32_t file) {
  if (!ghost(file)) add(ghosts_, file);
  note_made(file, "");
}

template <class Host>
bool Observations<Host>::ghost(std::uint32_t file) {
  if (!notes_read_) read_notes();
  return ghosts_.has(file);
}

template <class Host>
typename Observations<Host>::Noted Observations<Host>::noted_ghost(std::size_t n, char* path,
                                                                   std::size_t room_bytes) {
  if (!notes_read_) read_notes();
  if (n >= noted_.size) return Noted::kNothing;
  const std::uint64_t item = noted_.items[noted_.size - 1 - n];
  const std::size_t bytes = std::min<std::size_t>(item & 0xffff, room_bytes - 1);
  reader_.copy(item >> 16, path, bytes);
  path[bytes] = '\0';
  return n == 0 && half_made_ ? Noted::kPerhaps : Noted::kGhost;
}

template <class Host>
void Observations<Host>::note_made(std::uint32_t file, const char* path) {
  const std::size_t bytes = std::strlen(path);
  std::byte head[16] = {static_cast<std::byte>(ObservationKind::kMade)};
  append(head, put_varint(put_varint(head + 1, file), bytes) - head);
  append(path, bytes);
  writer_.publish();
}

template <class Host>
void Observations<Host>::read_notes() {
  notes_read_ = true;
  ObservationReader mine(rank_.host().base(), rank_.observation_log());
  for (Observation o; mine.next(&o);) {
    if (o.kind != ObservationKind::kMade) continue;
    half_made_ = o.data_bytes > 0;
    if (half_made_) {
      add(noted_, o.data_position << 16 | o.data_bytes);
    } else if (o.file != 0) {
      add(ghosts_, o.file);
    } else {
      ghosts_.size = noted_.size = 0;
    }
  }
}

template <class Host>
bool Observations<Host>::written_elsewhere(std::uint32_t file, bool kept) {
  if (!others_read_) read_what_others_write();
  const std::uint64_t item = 2 * std::uint64_t{file};
  return written_.has(item + 1) || (!kept && written_.has(item));
}

template <class Host>
void Observations<Host>::read_what_others_write() {
  others_read_ = true;
  for (std::uint32_t r = 0; r < rank_.size(); ++r) {
    if (r == rank_.rank()) continue;
    std::byte* base = rank_.host().base();
    ObservationReader theirs(base, engine::region_of(base, r)->observations);
    for (Observation o; theirs.next(&o);) {
      if (o.kind != ObservationKind::kOpen || o.data_bytes != sizeof(OpenedFile) ||
          (o.detail & O_ACCMODE) == O_RDONLY) {
        continue;
      }
      OpenedFile opened;
      theirs.copy(o.data_position, &opened, sizeof opened);
      const bool emptied = (o.detail & (O_TRUNC | O_EXCL)) != 0;
      const std::uint64_t item = 2 * std::uint64_t{opened.file} + !emptied;
      add(written_, item);
    }
  }
}

template <class Host>
void Observations<Host>::add(Set& set, std::uint64_t item) {
  if (set.has(item)) return;
  if (set.size == set.room) {
    const std::size_t room = 2 * set.room + 64;
    auto* larger = make_array<std::uint64_t>(room);
    std::copy(set.items, set.items + set.size, larger);
    rank_.arena().release(set.items, set.room * sizeof *set.items);
    set.items = larger;
    set.room = room;
  }
  std::uint64_t* end = set.items + set.size++;
  std::uint64_t* place = std::upper_bound(set.items, end, item);
  std::copy_backward(place, end, end + 1);
  *place = item;
}

// ------------------------------------------------------------------------------------------ memory

template <class Host>
template <class T>
T* Observations<Host>::make_array(std::size_t count) {
  T* p = rank_.arena().template make_array<T>(count);
  if (p == nullptr) out_of_memory();
  return p;
}

template <class Host>
void Observations<Host>::out_of_memory() {
  rank_.diverged("the journal's memory is used up");
}

template class Observations<engine::ShmHost>;

}  // namespace rejoin::libc_recording
