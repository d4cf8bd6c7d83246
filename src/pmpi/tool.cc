// MPI_T_*: the engine's counters, for tools. There are no control variables, because settings are
// options of ftrun. The functions work before MPI_Init and after MPI_Finalize, where all counters
// are 0.
#include <string.h>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/request.h"

namespace rejoin::pmpi {
namespace {

struct Counter {
  const char* name;
  const char* text;
  unsigned long long (*read)(const Rank&);
};

unsigned long long messages_sent(const Rank&) {
  unsigned long long n = 0;
  for (std::uint32_t r = 0; r < context->rank->size(); ++r) n += messages().posted(r);
  return n;
}

constexpr Counter kCounters[] = {
    {"rejoin_operations", "MPI operations that this incarnation of the rank has entered",
     [](const Rank& r) -> unsigned long long { return r.control().ordinal.load(); }},
    {"rejoin_replayed_operations", "operations and outcomes that were replayed from the journal",
     [](const Rank& r) -> unsigned long long { return r.control().replayed.load(); }},
    {"rejoin_incarnation", "number of restarts of the rank",
     [](const Rank& r) -> unsigned long long { return r.incarnation(); }},
    {"rejoin_messages_sent", "messages of the rank in the journal, those of collectives included",
     messages_sent},
    {"rejoin_journal_bytes", "memory of the rank's part of the journal",
     [](const Rank& r) -> unsigned long long { return r.control().backed_bytes.load(); }},
    {"rejoin_checkpoints", "the newest checkpoint that the rank has made or loaded",
     [](const Rank& r) -> unsigned long long { return r.version(); }},
};
constexpr int kCounterCount = sizeof kCounters / sizeof kCounters[0];
constexpr const char* kCategory = "rejoin";
constexpr const char* kCategoryText = "recovery: operations, messages and the journal";

// These objects are static, because tools may use them without MPI_Init, when the library has no
// other memory.
struct Session {
  bool used;
};
struct Handle {
  Session* session;  // null: free
  int counter;
};
struct Tool {
  int initialized;
  Session sessions[16];
  Handle handles[256];
};
constinit Tool tool = {};

template <class T, std::size_t kSize>
bool is_one_of(const T (&all)[kSize], const void* p) {
  const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(all);
  return offset < sizeof all && offset % sizeof(T) == 0;
}

Session* session_of(MPI_T_pvar_session handle) {
  auto* s = reinterpret_cast<Session*>(handle);
  return is_one_of(tool.sessions, s) && s->used ? s : nullptr;
}

Handle* handle_of(MPI_T_pvar_handle handle, const Session* session) {
  auto* h = reinterpret_cast<Handle*>(handle);
  return is_one_of(tool.handles, h) && h->session == session ? h : nullptr;
}

bool is_initialized() { return tool.initialized > 0; }

// Copies the part of a text that fits. *length becomes what the whole text needs. `to` and `length`
// may be null.
void give_text(const char* text, char* to, int* length) {
  if (length == nullptr) return;
  if (to != nullptr && *length > 0) {
    pmpi::give_text(to, static_cast<std::size_t>(*length), text);
  }
  *length = static_cast<int>(strlen(text)) + 1;
}

template <class T>
void give(T* to, T value) {
  if (to != nullptr) *to = value;
}

int check(int index, int count) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  return index >= 0 && index < count ? MPI_SUCCESS : MPI_T_ERR_INVALID_INDEX;
}

int not_there(int code) { return is_initialized() ? code : MPI_T_ERR_NOT_INITIALIZED; }

// Checks the arguments of a function that changes a counter, or all of a session. Returns `code`
// for one counter, because the program cannot change, start or stop counters.
int refuse(MPI_T_pvar_session session, MPI_T_pvar_handle handle, int code) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  const Session* s = session_of(session);
  if (s == nullptr) return MPI_T_ERR_INVALID_SESSION;
  if (handle == MPI_T_PVAR_ALL_HANDLES) return MPI_SUCCESS;
  return handle_of(handle, s) == nullptr ? MPI_T_ERR_INVALID_HANDLE : code;
}

}  // namespace

int t_init_thread(int required, int* provided) {
  ++tool.initialized;
  give(provided, required);
  return MPI_SUCCESS;
}

int t_finalize() {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  --tool.initialized;
  return MPI_SUCCESS;
}

// --- Control variables, of which there are none, and enumerations

int t_cvar_get_num(int* num_cvar) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  *num_cvar = 0;
  return MPI_SUCCESS;
}
int t_cvar_get_info(int, char*, int*, int*, MPI_Datatype*, MPI_T_enum*, char*, int*, int*, int*) {
  return not_there(MPI_T_ERR_INVALID_INDEX);
}
int t_cvar_get_index(const char*, int*) { return not_there(MPI_T_ERR_INVALID_NAME); }
int t_cvar_handle_alloc(int, void*, MPI_T_cvar_handle*, int*) {
  return not_there(MPI_T_ERR_INVALID_INDEX);
}
int t_cvar_handle_free(MPI_T_cvar_handle*) { return not_there(MPI_T_ERR_INVALID_HANDLE); }
int t_cvar_read(MPI_T_cvar_handle, void*) { return not_there(MPI_T_ERR_INVALID_HANDLE); }
int t_cvar_write(MPI_T_cvar_handle, const void*) { return not_there(MPI_T_ERR_INVALID_HANDLE); }
int t_enum_get_info(MPI_T_enum, int*, char*, int*) { return not_there(MPI_T_ERR_INVALID_HANDLE); }
int t_enum_get_item(MPI_T_enum, int, int*, char*, int*) {
  return not_there(MPI_T_ERR_INVALID_HANDLE);
}

// --- Performance variables

int t_pvar_get_num(int* num_pvar) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  *num_pvar = kCounterCount;
  return MPI_SUCCESS;
}

int t_pvar_get_info(int pvar_index, char* name, int* name_len, int* verbosity, int* var_class,
                    MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len,
                    int* bind, int* readonly, int* continuous, int* atomic) {
  if (const int code = check(pvar_index, kCounterCount)) return code;
  const Counter& c = kCounters[pvar_index];
  give_text(c.name, name, name_len);
  give_text(c.text, desc, desc_len);
  give<int>(verbosity, MPI_T_VERBOSITY_USER_BASIC);
  give<int>(var_class, MPI_T_PVAR_CLASS_COUNTER);
  give(datatype, MPI_UNSIGNED_LONG_LONG);
  give(enumtype, MPI_T_ENUM_NULL);
  give<int>(bind, MPI_T_BIND_NO_OBJECT);
  give(readonly, 1);
  give(continuous, 1);
  give(atomic, 0);
  return MPI_SUCCESS;
}

int t_pvar_get_index(const char* name, int var_class, int* pvar_index) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  for (int i = 0; i < kCounterCount; ++i) {
    if (strcmp(kCounters[i].name, name) != 0 || var_class != MPI_T_PVAR_CLASS_COUNTER) continue;
    *pvar_index = i;
    return MPI_SUCCESS;
  }
  return MPI_T_ERR_INVALID_NAME;
}

int t_pvar_session_create(MPI_T_pvar_session* session) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  for (Session& s : tool.sessions) {
    if (s.used) continue;
    s.used = true;
    *session = reinterpret_cast<MPI_T_pvar_session>(&s);
    return MPI_SUCCESS;
  }
  return MPI_T_ERR_OUT_OF_SESSIONS;
}

int t_pvar_session_free(MPI_T_pvar_session* session) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  Session* s = session_of(*session);
  if (s == nullptr) return MPI_T_ERR_INVALID_SESSION;
  for (Handle& h : tool.handles) {
    if (h.session == s) h.session = nullptr;
  }
  s->used = false;
  *session = MPI_T_PVAR_SESSION_NULL;
  return MPI_SUCCESS;
}

int t_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void*,
                        MPI_T_pvar_handle* handle, int* count) {
  if (const int code = check(pvar_index, kCounterCount)) return code;
  Session* s = session_of(session);
  if (s == nullptr) return MPI_T_ERR_INVALID_SESSION;
  if (handle == nullptr || count == nullptr) return MPI_T_ERR_INVALID;
  for (Handle& h : tool.handles) {
    if (h.session != nullptr) continue;
    h = {s, pvar_index};
    *handle = reinterpret_cast<MPI_T_pvar_handle>(&h);
    *count = 1;
    return MPI_SUCCESS;
  }
  return MPI_T_ERR_OUT_OF_HANDLES;
}

int t_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle* handle) {
  if (const int code = refuse(session, *handle, MPI_SUCCESS)) return code;
  Handle* h = handle_of(*handle, session_of(session));
  if (h == nullptr) return MPI_T_ERR_INVALID_HANDLE;
  h->session = nullptr;
  *handle = MPI_T_PVAR_HANDLE_NULL;
  return MPI_SUCCESS;
}

int t_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
  if (const int code = refuse(session, handle, MPI_SUCCESS)) return code;
  const Handle* h = handle_of(handle, session_of(session));
  if (h == nullptr) return MPI_T_ERR_INVALID_HANDLE;
  const unsigned long long value = active() ? kCounters[h->counter].read(*context->rank) : 0;
  memcpy(buf, &value, sizeof value);
  return MPI_SUCCESS;
}

int t_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return refuse(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP);
}
int t_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return refuse(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP);
}
int t_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return refuse(session, handle, MPI_T_ERR_PVAR_NO_WRITE);
}
int t_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void*) {
  return refuse(session, handle, MPI_T_ERR_PVAR_NO_WRITE);
}
int t_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void*) {
  return refuse(session, handle, MPI_T_ERR_PVAR_NO_ATOMIC);
}

// --- Categories: one

int t_category_get_num(int* num_cat) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  *num_cat = 1;
  return MPI_SUCCESS;
}
int t_category_get_info(int cat_index, char* name, int* name_len, char* desc, int* desc_len,
                        int* num_cvars, int* num_pvars, int* num_categories) {
  if (const int code = check(cat_index, 1)) return code;
  give_text(kCategory, name, name_len);
  give_text(kCategoryText, desc, desc_len);
  give(num_cvars, 0);
  give(num_pvars, kCounterCount);
  give(num_categories, 0);
  return MPI_SUCCESS;
}
int t_category_get_index(const char* name, int* category_index) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  if (strcmp(name, kCategory) != 0) return MPI_T_ERR_INVALID_NAME;
  *category_index = 0;
  return MPI_SUCCESS;
}
int t_category_get_pvars(int cat_index, int len, int indices[]) {
  if (const int code = check(cat_index, 1)) return code;
  for (int i = 0; i < len && i < kCounterCount; ++i) indices[i] = i;
  return MPI_SUCCESS;
}
int t_category_get_cvars(int cat_index, int, int[]) { return check(cat_index, 1); }
int t_category_get_categories(int cat_index, int, int[]) { return check(cat_index, 1); }
int t_category_changed(int* stamp) {
  if (!is_initialized()) return MPI_T_ERR_NOT_INITIALIZED;
  *stamp = 0;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
