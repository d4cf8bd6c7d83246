#include "libc_recording/observations.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "recovery/causes.h"

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

// The kernel's clock from which a series is read. Series of kAlone share theirs with no other
// series.
enum class Source : std::uint8_t { kRealTime, kMonotonic, kProcessTime, kAlone };

struct Origin {
  Source source;
  std::int64_t unit_ns;
};
Origin origin_of(Series s) {
  switch (s) {
    case Series::kTime:
      return {Source::kRealTime, kSecond_ns};
    case Series::kTimeOfDay:
      return {Source::kRealTime, 1000};
    case Series::kProcessor:
      return {Source::kProcessTime, 1000};
    case Series::kWtime:
      return {Source::kMonotonic, 1};
    default:
      break;
  }
  if (s == series_of_clock(CLOCK_REALTIME) || s == series_of_clock(CLOCK_REALTIME_COARSE)) {
    return {Source::kRealTime, 1};
  }
  if (s == series_of_clock(CLOCK_MONOTONIC) || s == series_of_clock(CLOCK_MONOTONIC_COARSE)) {
    return {Source::kMonotonic, 1};
  }
  if (s == series_of_clock(CLOCK_PROCESS_CPUTIME_ID)) return {Source::kProcessTime, 1};
  return {Source::kAlone, 1};
}

}  // namespace

const char* name_of(ObservationKind kind) {
  static constexpr const char* kNames[] = {"preparation", "access",
                                           "stat",        "statx",
                                           "open",        "unlink",
                                           "remove",      "rmdir",
                                           "rename",      "mkdir",
                                           "link",        "symlink",
                                           "mkstemp",     "random or system bytes",
                                           "gethostname", "uname",
                                           "opendir",     "a child process"};
  constexpr auto kFirst = static_cast<std::size_t>(ObservationKind::kAbout);
  static_assert(kFirst + std::size(kNames) ==
                static_cast<std::size_t>(ObservationKind::kChild) + 1);
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

Observations::Observations(recovery::Rank& rank)
    : rank_(rank),
      header_(journal::job_of(rank.host())),
      memory_(rank),
      writer_(rank.host(), rank.region(), rank.observation_log(), true),
      head_(open_head()),
      reader_(writer_.view()),
      files_(rank, memory_, head_),
      names_(memory_),
      clocks_(memory_.make_array<Clock>(kSeriesCount)) {
  if (head_.begin != 0) overwrite_before(head_.begin);
}

// Finds the head. The first incarnation makes it.
LibcHead& Observations::open_head() {
  if (LibcHead* head = head_of(writer_.view())) return *head;
  const std::uint64_t at = rank_.region().memory().allocate_permanent(sizeof(LibcHead));
  if (at == 0) memory_.journal_full();
  auto* head = new (journal::own_bytes(rank_.host(), at)) LibcHead{};
  head->pid = static_cast<std::uint32_t>(getpid());
  head->parent = static_cast<std::uint32_t>(getppid());
  std::byte entry[kHeadBytes] = {static_cast<std::byte>(ObservationKind::kHead)};
  std::memcpy(entry + kHeadBytes - sizeof at, &at, sizeof at);
  append(entry, sizeof entry);
  writer_.show(journal::Step::kObserve);
  return *head;
}

// --- Recall

// Makes `current_` the record that answers the next question. False: there is none any more.
bool Observations::peek() {
  while (left_ == 0) {
    if (!read_entry()) return false;
  }
  return true;
}

bool Observations::read_entry() {
  const std::uint64_t at = reader_.position();
  Observation next;
  if (!reader_.next(&next)) {
    if (reader_.truncated()) return false;  // before skip_to()
    live_ = true;
    files_.end_replay();
    return false;
  }
  if (next.kind == ObservationKind::kRepeat) {
    left_ = next.repeats;
  } else if (next.kind == ObservationKind::kName) {
    char text[4096];  // no path is longer
    const std::uint32_t bytes = std::min<std::uint32_t>(next.data_bytes, sizeof text);
    reader_.copy(next.data_position, text, bytes);
    names_.add(NameTable::hash_of(text, bytes), next.data_position, bytes);
  } else if (next.kind == ObservationKind::kBase) {
    names_.clear();
    bases_.add(memory_, at);
    marked_ = reader_.position();
  } else if (next.kind != ObservationKind::kHead) {
    current_ = next;
    left_ = 1;
  }
  return true;
}

void Observations::skip_to(std::uint64_t position) {
  skipped_ = true;
  std::fill(clocks_, clocks_ + kSeriesCount, Clock{});
  if (reader_.truncated()) {
    reader_.jump(head_.begin);
    left_ = 0;
  }
  while (!live_ && reader_.position() < position && read_entry()) {
    given_ += left_;
    left_ = 0;
  }
}

bool Observations::recall_slowly(Series series, std::int64_t* values) {
  if (!peek()) return false;
  if (current_.series != series) return !skipped_ && fit(series, values);
  std::memcpy(values, reader_.values(series), fields_of(series) * sizeof *values);
  // After an interpolated value the clock does not go back. Otherwise a recorded step back is
  // repeated.
  const std::int64_t fitted = clocks_[static_cast<std::size_t>(series)].fitted;
  if (fitted != 0) values[0] = std::max(values[0], fitted);
  --left_;
  ++given_;
  return true;
}

bool Observations::fit(Series series, std::int64_t* values) {
  if (current_.kind == ObservationKind::kSeries) {
    --left_;
    ++given_;
  }
  std::memcpy(values, reader_.values(series), fields_of(series) * sizeof *values);
  std::int64_t& fitted = clocks_[static_cast<std::size_t>(series)].fitted;
  values[0] = std::max(values[0], fitted);
  const Origin own = origin_of(series);
  for (std::size_t i = 0; own.source != Source::kAlone && i < kSeriesCount; ++i) {
    const auto other = static_cast<Series>(i);
    const Origin origin = origin_of(other);
    if (origin.source != own.source) continue;
    values[0] = std::max(values[0], reader_.values(other)[0] * origin.unit_ns / own.unit_ns);
  }
  fitted = values[0];
  return values[0] != 0;  // 0: no series of this clock has been read
}

// Skips readings of clocks: they may be left out in a replay. Returns whether there is another
// record.
bool Observations::peek_event() {
  while (peek()) {
    if (skipped_ || current_.kind != ObservationKind::kSeries) return true;
    given_ += left_;
    left_ = 0;
  }
  return false;
}

bool Observations::recall_slowly(Event& e) {
  if (!peek_event()) return false;
  const bool same = current_.kind == e.kind && current_.detail == e.detail &&
                    current_.name == (e.name != nullptr ? names_.find(e.name) : 0) &&
                    (e.other == nullptr || current_.other == names_.find(e.other));
  if (!same && skipped_) return false;
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

void Observations::describe(const Observation& o, char* text, std::size_t size) {
  char name[201];
  names_.text_of(reader_, o.name, name, sizeof name);
  std::snprintf(text, size, "%s of \"%s\" (0x%x)", name_of(o.kind), name, o.detail);
}

void Observations::diverge(const char* asked) {
  char then[512], cause[256], text[1400];
  describe(current_, then, sizeof then);
  recovery::put_likely_cause(cause, sizeof cause);
  std::snprintf(
      text, sizeof text,
      "observation %llu of rank %u was %s in the first execution, and is %s in the replay. The "
      "program is not deterministic, given what it observes; %s; see docs/fault-model.md",
      static_cast<unsigned long long>(given_ + 1), rank_.rank(), then, asked, cause);
  rank_.diverged(text);
}

// --- Record

// Whether answers are recorded: not when the journal is full, nor in a bootstrap phase that is run
// again.
bool Observations::recording() {
  if (rank_.peers().recycles()) return false;
  return live_ || (!peek() && live_);
}

void Observations::record(Series series, std::int64_t* values) {
  const bool recorded = recording();
  Clock& clock = clocks_[static_cast<std::size_t>(series)];
  std::int64_t* last = reader_.values(series);
  const std::size_t fields = fields_of(series);
  if (!clock.live) continue_clock(series, clock, values);
  for (std::size_t i = 0; i < fields; ++i) values[i] += clock.offset[i];
  if (!live_) clock.live = false;  // the offset is computed again when the replay has ended
  if (fields == kMaxFields) {
    values[kLargestResident] = std::max(values[kLargestResident], last[kLargestResident]);
  }
  if (!recorded) return;
  if (fields == 1 && too_fine(series, clock, values[0], last[0])) values[0] = last[0];
  if (last_series_ == series && std::equal(values, values + fields, last)) return repeat();

  std::byte entry[kLongestHead];
  const bool in_place = writer_.room() >= kLongestHead;
  std::byte* const head = in_place ? writer_.next() : entry;
  std::byte* end = head;
  *end++ = static_cast<std::byte>(static_cast<std::size_t>(ObservationKind::kSeries) +
                                  static_cast<std::size_t>(series));
  for (std::size_t i = 0; i < fields; ++i) {
    end = put_delta(end, values[i], last[i]);
    last[i] = values[i];
  }
  if (in_place) {
    writer_.advance(end - head);
  } else {
    append(head, end - head);
  }
  writer_.show(journal::Step::kObserve);
  last_series_ = series;
  last_event_bytes_ = 0;
  repeat_word_ = nullptr;
}

// The processor time of a new process begins at zero, and includes what its replay has used.
void Observations::continue_clock(Series series, Clock& clock, std::int64_t* values) {
  clock.live = true;
  const std::int64_t* last = reader_.values(series);
  const std::size_t fields = fields_of(series);
  for (std::size_t i = 0; i < fields; ++i) {
    const bool maximum = fields == kMaxFields && i == kLargestResident;
    const std::int64_t least = i == 0 ? std::max(last[i], clock.fitted) : last[i];
    clock.offset[i] = maximum ? 0 : std::max<std::int64_t>(least - values[i], 0);
  }
}

std::int64_t Observations::ahead(Series series, std::int64_t now) {
  Clock& clock = clocks_[static_cast<std::size_t>(series)];
  // The clock starts to advance now and not at its next reading, because the program is about to
  // wait, and that time has to count.
  if (!clock.live && recording()) continue_clock(series, clock, &now);
  if (clock.live) return clock.offset[0];
  return std::max<std::int64_t>(0, reader_.values(series)[0] - now);
}

bool Observations::too_fine(Series series, Clock& c, std::int64_t now, std::int64_t last) {
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

void Observations::record(const Event& e) {
  if (!recording()) return;
  if (e.kind == ObservationKind::kOpen && e.data_bytes == sizeof(OpenedFile)) {
    files_.opened(*static_cast<const OpenedFile*>(e.data), e.detail);
  }
  const std::uint32_t names = names_.end();
  const std::uint32_t name = e.name != nullptr ? intern(e.name) : 0;
  const std::uint32_t other = e.other != nullptr ? intern(e.other) : 0;
  std::byte head[kLongestHead];
  std::byte* end = head;
  *end++ = static_cast<std::byte>(e.kind);
  for (const std::uint64_t v : {std::uint64_t{name}, std::uint64_t{other}, std::uint64_t{e.detail},
                                static_cast<std::uint64_t>(e.error), std::uint64_t{e.data_bytes}}) {
    end = put_varint(end, v);
  }
  if (names == names_.end() && same_as_last(head, end - head, e)) return repeat();
  last_event_ = writer_.tail();
  last_event_bytes_ = end - head + e.data_bytes;
  append(head, end - head);
  append(e.data, e.data_bytes);
  writer_.show(journal::Step::kObserve);
  last_series_ = Series::kEnd;
  repeat_word_ = nullptr;
}

bool Observations::same_as_last(const std::byte* head, std::size_t head_bytes, const Event& e) {
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

void Observations::repeat() {
  if (repeat_word_ != nullptr) {
    const std::uint32_t count = journal::load_element(*repeat_word_);
    if (count != ~std::uint32_t{0}) {
      return journal::store_element(rank_.host(), journal::Step::kObserve, *repeat_word_,
                                    count + 1);
    }
  }
  constexpr std::uint32_t kOnce = 1;
  const std::byte kind{static_cast<std::uint8_t>(ObservationKind::kRepeat)};
  append(&kind, 1);
  pad();
  const std::uint64_t position = writer_.tail();
  append(&kOnce, sizeof kOnce);
  writer_.show(journal::Step::kObserve);
  repeat_word_ = reinterpret_cast<std::uint32_t*>(writer_.at(position));
}

void Observations::append(const void* data, std::size_t bytes) {
  if (!libc_recording::append(writer_, data, bytes)) memory_.journal_full();
}

// Counters lie at multiples of four in the log, and so in memory.
void Observations::pad() {
  constexpr std::byte kPads[sizeof(std::uint32_t)] = {};
  append(kPads, -writer_.tail() % sizeof kPads);
}

std::uint32_t Observations::intern(const char* name) {
  const std::size_t bytes = std::strlen(name);
  const std::uint64_t hash = NameTable::hash_of(name, bytes);
  const std::uint32_t known = names_.find(hash);
  if (known != 0) return known;
  std::byte head[16] = {static_cast<std::byte>(ObservationKind::kName)};
  append(head, put_varint(head + 1, bytes) - head);
  const std::uint64_t position = writer_.tail();
  append(name, bytes);
  return names_.add(hash, position, static_cast<std::uint32_t>(bytes));
}

bool Observations::told(const char* name) {
  const std::uint64_t hash = NameTable::hash_of(name, std::strlen(name));
  const bool before = told_.has(hash);
  told_.insert(memory_, hash);
  return before;
}

// --- Truncation

void Observations::mark() {
  if (!recording() || writer_.tail() == marked_) return;
  bases_.add(memory_, writer_.tail());
  std::byte base[1 + kSeriesCount * kMaxFields * kLongestVarint];
  std::byte* end = base;
  *end++ = static_cast<std::byte>(ObservationKind::kBase);
  for (std::size_t s = 0; s < kSeriesCount; ++s) {
    const auto series = static_cast<Series>(s);
    for (std::size_t i = 0; i < fields_of(series); ++i) {
      end = put_delta(end, reader_.values(series)[i], 0);
    }
  }
  append(base, end - base);
  writer_.show(journal::Step::kObserve);
  marked_ = writer_.tail();
  names_.clear();
  last_series_ = Series::kEnd;
  last_event_bytes_ = 0;
  repeat_word_ = nullptr;
}

void Observations::restart_clocks() { std::fill(clocks_, clocks_ + kSeriesCount, Clock{}); }

void Observations::wake() {
  writer_.rebase();
  if (head_.begin != 0) overwrite_before(head_.begin);
  files_.wake();
  reader_.go_on(image_at_);
  live_ = false;
  left_ = 0;
  current_ = {};
  std::fill(clocks_, clocks_ + kSeriesCount, Clock{});
  last_series_ = Series::kEnd;
  last_event_bytes_ = 0;
  repeat_word_ = nullptr;
}

void Observations::truncate(std::uint64_t keep_from) {
  std::uint64_t* end = bases_.items + bases_.size;
  std::uint64_t* after = std::upper_bound(bases_.items, end, keep_from);
  if (after == bases_.items || !recording()) return;
  const std::uint64_t begin = after[-1];
  bases_.size = static_cast<std::size_t>(std::copy(after - 1, end, bases_.items) - bases_.items);
  pad();
  writer_.show(journal::Step::kObserve);
  head_.begin = begin;
  overwrite_before(begin);
}

// The position is rounded, so that a round of the ring ends at a multiple of four.
void Observations::overwrite_before(std::uint64_t begin) {
  writer_.truncate(begin / sizeof(std::uint32_t) * sizeof(std::uint32_t));
}

}  // namespace rejoin::libc_recording
