#include "pmpi/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utility>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/program_site.h"
#include "wire/messages.h"

namespace rejoin::pmpi {
namespace {

constexpr int kSecondsToBeKilled = 10;
constexpr char kAt[] = " at ";  // precedes the call site in a text

struct ErrorClass {
  const char* name;
  const char* text;
};

// Indexed by value, from MPI_SUCCESS on. MPI_T_ classes are never given to an error handler.
constexpr ErrorClass kClasses[] = {
    {"MPI_SUCCESS", "no error"},
    {"MPI_ERR_BUFFER", "invalid buffer"},
    {"MPI_ERR_COUNT", "invalid count"},
    {"MPI_ERR_TYPE", "invalid datatype"},
    {"MPI_ERR_TAG", "invalid tag"},
    {"MPI_ERR_COMM", "invalid communicator"},
    {"MPI_ERR_RANK", "invalid rank"},
    {"MPI_ERR_REQUEST", "invalid request"},
    {"MPI_ERR_ROOT", "invalid root"},
    {"MPI_ERR_GROUP", "invalid group"},
    {"MPI_ERR_OP", "invalid reduction operation"},
    {"MPI_ERR_TOPOLOGY", "invalid communicator topology"},
    {"MPI_ERR_DIMS", "invalid topology dimension"},
    {"MPI_ERR_ARG", "invalid argument of some other kind"},
    {"MPI_ERR_UNKNOWN", "unknown error"},
    {"MPI_ERR_TRUNCATE", "message truncated"},
    {"MPI_ERR_OTHER", "known error that is not in this list"},
    {"MPI_ERR_INTERN", "internal error"},
    {"MPI_ERR_IN_STATUS", "error code is in the status"},
    {"MPI_ERR_PENDING", "pending request"},
    {"MPI_ERR_ACCESS", "no permission for the file"},
    {"MPI_ERR_AMODE", "access mode differs between ranks or is not possible"},
    {"MPI_ERR_ASSERT", "invalid assertion"},
    {"MPI_ERR_BAD_FILE", "invalid file name"},
    {"MPI_ERR_BASE", "invalid base address"},
    {"MPI_ERR_CONVERSION", "error in a data conversion function"},
    {"MPI_ERR_DISP", "invalid displacement"},
    {"MPI_ERR_DUP_DATAREP", "data representation is defined already"},
    {"MPI_ERR_FILE_EXISTS", "file exists"},
    {"MPI_ERR_FILE_IN_USE", "file is in use"},
    {"MPI_ERR_FILE", "invalid file handle"},
    {"MPI_ERR_INFO_KEY", "info key is too long"},
    {"MPI_ERR_INFO_NOKEY", "no such info key"},
    {"MPI_ERR_INFO_VALUE", "info value is too long"},
    {"MPI_ERR_INFO", "invalid info object"},
    {"MPI_ERR_IO", "input or output error"},
    {"MPI_ERR_KEYVAL", "invalid attribute key"},
    {"MPI_ERR_LOCKTYPE", "invalid lock type"},
    {"MPI_ERR_NAME", "no such service name"},
    {"MPI_ERR_NO_MEM", "no memory"},
    {"MPI_ERR_NOT_SAME", "collective arguments differ between ranks"},
    {"MPI_ERR_NO_SPACE", "no space left"},
    {"MPI_ERR_NO_SUCH_FILE", "no such file"},
    {"MPI_ERR_PORT", "invalid port"},
    {"MPI_ERR_QUOTA", "quota exceeded"},
    {"MPI_ERR_READ_ONLY", "file or file system is read-only"},
    {"MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"},
    {"MPI_ERR_RMA_SYNC", "wrong synchronisation of accesses to a window"},
    {"MPI_ERR_SERVICE", "invalid service name"},
    {"MPI_ERR_SIZE", "invalid size"},
    {"MPI_ERR_SPAWN", "cannot start processes"},
    {"MPI_ERR_UNSUPPORTED_DATAREP", "unsupported data representation"},
    {"MPI_ERR_UNSUPPORTED_OPERATION", "unsupported operation"},
    {"MPI_ERR_WIN", "invalid window"},
    {"MPI_T_ERR_MEMORY", "no memory"},
    {"MPI_T_ERR_NOT_INITIALIZED", "the tool interface is not initialised"},
    {"MPI_T_ERR_CANNOT_INIT", "the tool interface cannot be initialised"},
    {"MPI_T_ERR_INVALID_INDEX", "invalid index"},
    {"MPI_T_ERR_INVALID_ITEM", "invalid item"},
    {"MPI_T_ERR_INVALID_HANDLE", "invalid handle"},
    {"MPI_T_ERR_OUT_OF_HANDLES", "no more handles"},
    {"MPI_T_ERR_OUT_OF_SESSIONS", "no more sessions"},
    {"MPI_T_ERR_INVALID_SESSION", "invalid session"},
    {"MPI_T_ERR_CVAR_SET_NOT_NOW", "variable cannot be set now"},
    {"MPI_T_ERR_CVAR_SET_NEVER", "variable cannot be set"},
    {"MPI_T_ERR_PVAR_NO_STARTSTOP", "variable cannot be started or stopped"},
    {"MPI_T_ERR_PVAR_NO_WRITE", "variable cannot be written"},
    {"MPI_T_ERR_PVAR_NO_ATOMIC", "variable cannot be read and reset at once"},
    {"MPI_ERR_RMA_RANGE", "address outside the window"},
    {"MPI_ERR_RMA_ATTACH", "memory cannot be attached"},
    {"MPI_ERR_RMA_FLAVOR", "wrong flavour of window"},
    {"MPI_ERR_RMA_SHARED", "memory cannot be shared"},
    {"MPI_T_ERR_INVALID", "invalid use of the tool interface"},
    {"MPI_T_ERR_INVALID_NAME", "invalid name"},
};
constexpr int kClassCount = sizeof kClasses / sizeof kClasses[0];
static_assert(kClassCount == MPI_T_ERR_INVALID_NAME + 1);
constexpr int kFirstAdded = MPI_ERR_LASTCODE + 1;

AddedError* added(int code) {
  const int i = code - kFirstAdded;
  return i >= 0 && context != nullptr && i < context->error_count ? &context->errors[i] : nullptr;
}

int class_of(int code) {
  if (const AddedError* e = added(code)) return e->error_class;
  return code >= 0 && code < kClassCount ? code : MPI_ERR_UNKNOWN;
}

void text_of(int code, char* text, std::size_t bytes) {
  if (const AddedError* e = added(code)) {
    snprintf(text, bytes, "%s", e->text);
    return;
  }
  const ErrorClass& c = kClasses[class_of(code)];
  const bool newest = context != nullptr && code != MPI_SUCCESS && code == context->last_code;
  snprintf(text, bytes, "%s: %s", c.name, newest ? context->last_text : c.text);
}

// Ends the job because of an error. `owner`: the object with the fatal handler, for the message.
[[noreturn]] void end_by_error(int code, const char* owner) {
  char what[1200], text[1500], where[64] = "";
  text_of(code, what, sizeof what);
  if (strchr(what, '{') == nullptr) put_call_site(where, sizeof where);
  snprintf(text, sizeof text, "%s%s%s%s (%s)",
           added(code) != nullptr ? "an error of the program's own: " : "", what,
           where[0] != '\0' ? kAt : "", where, owner);
  end_job(code, text);
}

// Calls `handler`, which is not fatal, for an error of `object`, a communicator or a file.
template <class Object>
int call_handler_of(Object object, MPI_Errhandler handler, MPI_Fint (*to_fortran)(Object),
                    int code) {
  void* function = reinterpret_cast<void*>(handler->function);
  if (handler->kind == ErrhandlerKind::kUser) {
    reinterpret_cast<void (*)(Object*, int*, ...)>(function)(&object, &code, nullptr);
  } else if (handler->kind == ErrhandlerKind::kFortran) {
    MPI_Fint handle = to_fortran(object), error = code;
    reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(function)(&handle, &error);
  }
  return code;
}

int call_handler(MPI_Comm comm, int code) {
  if (comm->errhandler->kind != ErrhandlerKind::kFatal) {
    return call_handler_of(comm, comm->errhandler, comm_c2f, code);
  }
  char owner[MPI_MAX_OBJECT_NAME + 32];
  snprintf(owner, sizeof owner, "communicator %s",
           comm->name[0] != '\0' ? comm->name : "without a name");
  end_by_error(code, owner);
}

int call_file_handler(int code) {
  MPI_Errhandler handler = context->file_errhandler;
  if (handler == nullptr) return code;  // MPI_ERRORS_RETURN, the default for files
  if (handler->kind == ErrhandlerKind::kFatal) end_by_error(code, "MPI_FILE_NULL");
  return call_handler_of(MPI_FILE_NULL, handler, file_c2f, code);
}

// Sets the text that MPI_Error_string returns for `code`.
void describe_failure(const char* function, int code, const char* what) {
  char where[64] = "";
  if (strchr(what, '{') == nullptr)
    put_call_site(where, sizeof where);  // else `what` contains the call site
  snprintf(context->last_text, sizeof context->last_text, "%s%s%s: %s", function,
           where[0] != '\0' ? kAt : "", where, what);
  context->last_code = code;
}

}  // namespace

bool has_agent() {
  const recovery::Rank* rank = recovery::attached_rank();
  return rank != nullptr && rank->host().has_agent();
}

void put_call_site(char* to, std::size_t bytes) {
  const NamedSite named = std::exchange(context->site, {});  // a name holds for one call
  recovery::Call call = {{}, named.function != nullptr ? named.file : program_site()};
  call.function = named.function;
  call.line = named.line;
  to[0] = '\0';
  if (call.site != nullptr) context->rank->put_site(call, to, bytes);
}

void end_job(int code, const char* text) {
  if (has_agent()) {
    recovery::attached_rank()->host().tell(wire::MessageType::kAbort, code, 0, text, strlen(text));
    for (int s = 0; s < kSecondsToBeKilled; ++s) sleep(1);
  } else if (text[0] != '\0') {
    char line[1600], named[1500];
    snprintf(named, sizeof named, "%s", text);
    if (context != nullptr) context->rank->copy_text(text, named, sizeof named);
    const int bytes = snprintf(line, sizeof line, "rejoin: %s\n", named);
    if (write(2, line, static_cast<std::size_t>(bytes)) < 0) _exit(code);
  }
  _exit(code);
}

void tell_once(const char* subject, const char* text) {
  if (has_agent()) return context->rank->notice_once(subject, text);
  char whole[1600];
  context->rank->copy_text(text, whole, sizeof whole);
  fprintf(stderr, "rejoin: %s\n", whole);
}

void require_active(const char* function) {
  if (active()) return;
  char text[256], where[64] = "";
  const bool early = context == nullptr;
  if (!early) put_call_site(where, sizeof where);
  snprintf(
      text, sizeof text,
      "%s was called %s%s%s; MPI functions can be called only between MPI_Init and MPI_Finalize",
      function, early ? "before MPI_Init" : "after MPI_Finalize", where[0] != '\0' ? kAt : "",
      where);
  end_job(1, text);
}

static void describe_failure(const char* function, int code, const char* format,
                             va_list arguments) {
  char what[800];
  vsnprintf(what, sizeof what, format, arguments);
  describe_failure(function, code, what);
}

int fail(const char* function, MPI_Comm comm, int code, const char* format, ...) {
  require_active(function);
  va_list arguments;
  va_start(arguments, format);
  describe_failure(function, code, format, arguments);
  va_end(arguments);
  return call_handler(is_any_comm(comm) ? comm : MPI_COMM_WORLD, code);
}

int fail_through(MPI_Comm comm, const char* function, int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  describe_failure(function, code, format, arguments);
  va_end(arguments);
  return call_handler(comm, code);
}

int fail_file(const char* function, int code, const char* what) {
  require_active(function);
  describe_failure(function, code, what);
  return call_file_handler(code);
}

int fail_comm(const char* function, MPI_Comm comm) {
  if (is_inter(comm)) {
    return fail(function, comm, MPI_ERR_COMM, "it does not work on an intercommunicator");
  }
  if (is_comm(comm)) {
    return fail(function, comm, MPI_ERR_COMM, "the communicator is no intercommunicator");
  }
  return fail(function, MPI_COMM_NULL, MPI_ERR_COMM,
              "the communicator is MPI_COMM_NULL, or it was freed");
}

int class_of(recovery::Status status) {
  switch (status) {
    case recovery::Status::kOk:
      return MPI_SUCCESS;
    case recovery::Status::kTruncated:
      return MPI_ERR_TRUNCATE;
    case recovery::Status::kMismatch:
      return MPI_ERR_NOT_SAME;
    case recovery::Status::kNoMemory:
      return MPI_ERR_NO_MEM;
    default:
      return MPI_ERR_OTHER;
  }
}

int fail_status(const char* function, MPI_Comm comm, recovery::Status status) {
  const char* what = context->rank->last_error();
  const MPI_Comm asked = is_any_comm(comm) ? comm : MPI_COMM_WORLD;
  if (status == recovery::Status::kMismatch && asked->errhandler->kind != ErrhandlerKind::kFatal) {
    // A replay does not know which member made which call: the program gets a text that a replay
    // can repeat, and the user gets the details.
    constexpr int kMostTold = 8;
    static int told = 0;
    if (!context->rank->is_replaying() && told++ < kMostTold) context->rank->notice(what);
    what = "the members disagree about this operation (ftrun has printed the details)";
  }
  return fail(function, comm, class_of(status), "%s", what);
}

// Reports, once in the job, that an error of `function` was returned to the program: many programs
// ignore it.
static void tell_of_unsupported(const char* function) {
  constexpr int kMost = 256;  // larger than the number of unsupported functions
  static const char* told[kMost];
  static int count = 0;
  for (int i = 0; i < count; ++i) {
    if (strcmp(told[i], function) == 0) return;
  }
  if (count < kMost) told[count++] = function;
  char text[sizeof context->last_text + 64];
  snprintf(text, sizeof text, "%s; the function returned an error to the program",
           context->last_text);
  tell_once(function, text);
}

static void describe_unsupported(const char* function, MPI_Errhandler asked) {
  describe_failure(function, MPI_ERR_UNSUPPORTED_OPERATION,
                   "this function is not supported; docs/coverage.md lists those that are");
  if (asked->kind != ErrhandlerKind::kFatal) tell_of_unsupported(function);
}

int unsupported(const char* function, MPI_Comm comm) {
  require_active(function);
  const MPI_Comm asked = is_any_comm(comm) ? comm : MPI_COMM_WORLD;
  describe_unsupported(function, asked->errhandler);
  return call_handler(asked, MPI_ERR_UNSUPPORTED_OPERATION);
}

int unsupported_of_file(const char* function, MPI_Comm comm) {
  require_active(function);
  if (context->file_errhandler == nullptr) return unsupported(function, comm);
  describe_unsupported(function, context->file_errhandler);
  return call_file_handler(MPI_ERR_UNSUPPORTED_OPERATION);
}

int fail_null(const char* function, MPI_Comm comm, int code, const char* name) {
  constexpr const char* kWhat = "the argument %s is a null pointer";
  if (active()) return fail(function, comm, code, kWhat, name);
  // Only functions that may be called before MPI_Init get here.
  char what[200], text[300];
  snprintf(what, sizeof what, kWhat, name);
  snprintf(text, sizeof text, "%s: %s", function, what);
  end_job(code, text);
}

// Removes the first " at {...}" from a text. False: there is none.
static bool drop_place(char* text) {
  char* brace = strchr(text, '{');
  char* end = brace == nullptr ? nullptr : strchr(brace, '}');
  constexpr std::size_t kAtBytes = sizeof kAt - 1;
  if (end == nullptr || brace < text + kAtBytes) return false;
  memmove(brace - kAtBytes, end + 1, strlen(end + 1) + 1);
  return true;
}

// --- Classes and codes

int error_class(int errorcode, int* errorclass) {
  constexpr const char* kName = "MPI_Error_class";
  require_active(kName);
  if (added(errorcode) == nullptr && (errorcode < 0 || errorcode >= kClassCount)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "%d is not an error code", errorcode);
  }
  *errorclass = class_of(errorcode);
  return MPI_SUCCESS;
}

int error_string(int errorcode, char* string, int* resultlen) {
  constexpr const char* kName = "MPI_Error_string";
  require_active(kName);
  if (added(errorcode) == nullptr && (errorcode < 0 || errorcode >= kClassCount)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "%d is not an error code", errorcode);
  }
  char text[1600], whole[1600];
  text_of(errorcode, text, sizeof text);
  if (added(errorcode) != nullptr) {  // the program has set the text
    *resultlen = give_text(string, MPI_MAX_ERROR_STRING, text);
  } else {
    context->rank->copy_text(text, whole, sizeof whole);
    // If the text is too long, the call site is left out, because the reason matters more.
    if (strlen(whole) >= MPI_MAX_ERROR_STRING && drop_place(text)) {
      context->rank->copy_text(text, whole, sizeof whole);
    }
    *resultlen = give_text(string, MPI_MAX_ERROR_STRING, whole);
  }
  return MPI_SUCCESS;
}

static int add_error(int error_class) {
  grow(&context->errors, context->error_count, &context->error_capacity);
  const int code = kFirstAdded + context->error_count;
  context->errors[context->error_count++] = {error_class < 0 ? code : error_class, ""};
  return code;
}

int add_error_class(int* errorclass) {
  require_active("MPI_Add_error_class");
  *errorclass = add_error(-1);
  return MPI_SUCCESS;
}

int add_error_code(int errorclass, int* errorcode) {
  constexpr const char* kName = "MPI_Add_error_code";
  require_active(kName);
  const AddedError* e = added(errorclass);
  const bool is_class =
      e != nullptr ? e->error_class == errorclass : errorclass >= 0 && errorclass < kClassCount;
  if (!is_class) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "%d is not an error class", errorclass);
  }
  *errorcode = add_error(errorclass);
  return MPI_SUCCESS;
}

int add_error_string(int errorcode, const char* string) {
  constexpr const char* kName = "MPI_Add_error_string";
  require_active(kName);
  AddedError* e = added(errorcode);
  if (e == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG,
                "%d was not made by MPI_Add_error_code or _class", errorcode);
  }
  snprintf(e->text, sizeof e->text, "%s", string);
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
