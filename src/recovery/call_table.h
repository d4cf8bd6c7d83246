// Interns (signature, call site) pairs in the rank's call log, so that a record names its call in
// four bytes. A new incarnation finds its predecessor's entries and returns the same indices.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "journal/arena.h"
#include "journal/host.h"
#include "journal/log.h"
#include "journal/own.h"
#include "journal/step.h"
#include "recovery/hash.h"
#include "recovery/types.h"

namespace rejoin::recovery {

inline std::uint32_t hash_of(const Signature& s) {
  return static_cast<std::uint32_t>(XXH3_64bits(&s, sizeof s)) | 1;
}

template <journal::Host Host>
class CallTable {
 public:
  struct Interned {
    std::uint32_t call;  // index into the call log; kNone: no memory
    std::uint32_t hash;  // of the signature
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  CallTable(Host& host, journal::Region<Host>& region, journal::Arena& arena)
      : host_(host),
        arena_(arena),
        calls_(host, region, journal::own_region(host)->calls, true),
        modules_(host, region, journal::own_region(host)->modules, true),
        recent_(arena.make_array<Recent>(kRecent)) {
    resize(kSmallest);
  }

  // kNone: no memory, or more calls than a record can name.
  Interned intern(const Call& call) {
    const std::uint64_t site = reinterpret_cast<std::uint64_t>(call.site);
    Recent& r = recent_[(site ^ site >> 7 ^ call.signature.bytes ^ call.line) % kRecent];
    const bool same = r.site == call.site && r.line == call.line && r.function == call.function &&
                      r.signature == call.signature;
    if (same) return r.interned;
    r.interned = intern_slowly(call);
    r.site = call.site;
    r.function = call.function;
    r.line = call.line;
    r.signature = call.signature;
    return r.interned;
  }

  // REQUIRES an index that intern() returned.
  const journal::CallEntry* entry(std::uint32_t call) { return calls_.at(call); }

  // Finds the call site alone, as texts name it (wire/messages.h). False: no memory for it.
  bool locate(const Call& call, std::uint32_t* module, std::uint64_t* place) {
    *module = module_of(call, place);
    return *module != kNone;
  }

  // The phases in which the call was made, as kCalled... of journal/layout.h.
  std::uint32_t phases(std::uint32_t call) {
    return journal::load_element(calls_.at(call)->phases);
  }
  void add_phase(std::uint32_t call, std::uint32_t phase) {
    std::uint32_t& phases = calls_.at(call)->phases;
    const std::uint32_t before = journal::load_element(phases);
    if ((before & phase) == 0) {
      journal::store_element(host_, journal::Step::kPhase, phases, before | phase);
    }
  }

  // Reads the logs' words again, and adds entries that were appended meanwhile.
  void rebase() {
    const std::uint64_t known = calls_.tail();
    calls_.rebase();
    modules_.rebase();
    if (calls_.tail() != known) resize(size_);
  }

 private:
  static constexpr std::uint32_t kRecent = 256;
  static constexpr std::uint32_t kSmallest = 1024;
  struct Recent {
    const void* site = nullptr;
    const char* function = nullptr;
    std::uint32_t line = 0;
    Signature signature = {};
    Interned interned = {};
  };

  static std::uint64_t key(std::uint32_t hash, std::uint32_t module, std::uint64_t place) {
    return journal::mix(hash ^ std::uint64_t{module} << 32 ^ place << 17);
  }

  Interned intern_slowly(const Call& call) {
    const std::uint32_t hash = hash_of(call.signature);
    std::uint64_t place = 0;
    const std::uint32_t module = module_of(call, &place);
    for (std::uint64_t i = key(hash, module, place);; ++i) {
      std::uint32_t& bucket = buckets_[i & (size_ - 1)];
      if (bucket == 0) break;
      const journal::CallEntry* e = calls_.at(bucket - 1);
      if (e->hash == hash && e->module == module && e->place == place &&
          e->signature == call.signature) {
        return {bucket - 1, hash};
      }
    }
    journal::CallEntry* e = calls_.tail() < journal::kCallIndex ? calls_.next() : nullptr;
    if (e == nullptr) return {kNone, hash};
    *e = {call.signature, hash, module, place, 0};
    const auto index = static_cast<std::uint32_t>(calls_.tail());
    calls_.publish(journal::Step::kIntern);
    if (2 * calls_.tail() > size_) {
      resize(2 * size_);
    } else {
      insert(index);
    }
    return {index, hash};
  }

  // Rebuilds the buckets from the log. REQUIRES a power of two.
  void resize(std::uint32_t size) {
    while (2 * calls_.tail() > size) size *= 2;
    arena_.release(buckets_, size_ * sizeof(std::uint32_t));
    buckets_ = arena_.make_array<std::uint32_t>(size);
    size_ = size;
    for (std::uint32_t i = 0; i < calls_.tail(); ++i) insert(i);
  }
  void insert(std::uint32_t index) {
    const journal::CallEntry* e = calls_.at(index);
    std::uint64_t i = key(e->hash, e->module, e->place);
    while (buckets_[i & (size_ - 1)] != 0) ++i;
    buckets_[i & (size_ - 1)] = index + 1;
  }

  std::uint32_t module_of(const Call& call, std::uint64_t* place) {
    journal::ModuleEntry found = {};
    if (call.function != nullptr) {
      found.build_id_bytes = journal::kNamedSite;
      const char* file = static_cast<const char*>(call.site);
      const std::size_t file_bytes = std::strlen(file), room = sizeof found.path - 1;
      const std::size_t bytes = file_bytes + 2 + std::strlen(call.function);
      if (bytes > room) file += std::min(file_bytes, bytes - room);
      std::snprintf(found.path, sizeof found.path, "%s::%s", file, call.function);
      *place = call.line;
    } else {
      host_.locate(call.site, &found, place);
    }
    for (std::uint32_t i = 0; i < modules_.tail(); ++i) {
      if (std::memcmp(modules_.at(i), &found, sizeof found) == 0) return i;
    }
    journal::ModuleEntry* e = modules_.next();
    if (e == nullptr) return kNone;
    *e = found;
    modules_.publish(journal::Step::kIntern);
    return static_cast<std::uint32_t>(modules_.tail() - 1);
  }

  Host& host_;
  journal::Arena& arena_;
  journal::LogWriter<journal::CallEntry, Host> calls_;
  journal::LogWriter<journal::ModuleEntry, Host> modules_;
  Recent* recent_;
  std::uint32_t* buckets_ = nullptr;  // index + 1; 0 = free
  std::uint32_t size_ = 0;
};

}  // namespace rejoin::recovery
