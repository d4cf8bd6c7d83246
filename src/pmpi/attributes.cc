// Attributes of communicators, under their names of MPI 2 and of MPI 1, and of datatypes. There are
// no windows to have attributes; their keyvals may be created and freed.
#include "pmpi/attributes.h"

#include <limits.h>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"
#include "pmpi/mpifh/hooks.h"

namespace rejoin::pmpi {

struct AttributeValue {
  AttributeKind kind;
  MPI_Fint integer;  // kInteger
  MPI_Aint address;  // of kAddress; the pointer of kPointer
};

struct Attribute {
  int keyval;
  AttributeValue value;
  Attribute* next;
};

namespace {

// What a keyval's attributes belong to.
enum class Kind : int { kComm, kType, kWin };
constexpr int kKinds = 3;

// A communicator or a datatype with its attributes.
struct Owner {
  explicit Owner(MPI_Comm c) : kind(Kind::kComm), comm(c), attributes(&c->attributes) {}
  explicit Owner(MPI_Datatype t)
      : kind(Kind::kType), comm(MPI_COMM_WORLD), type(t), attributes(&t->attributes) {}

  MPI_Fint to_fortran() const { return kind == Kind::kComm ? comm_c2f(comm) : type_c2f(type); }

  Kind kind;
  MPI_Comm comm;  // its error handler is called for errors
  MPI_Datatype type = nullptr;
  Attribute** attributes;  // newest first
};

// --- How each language sees a value (MPI 3.1, section 17.2.7)

AttributeValue from_pointer(void* p) {
  return {AttributeKind::kPointer, 0, reinterpret_cast<MPI_Aint>(p)};
}
AttributeValue from_integer(MPI_Aint value, AttributeKind kind) {
  return {kind, static_cast<MPI_Fint>(value), value};
}

// Returns what C sees: the address of a value that Fortran has set.
void* as_pointer(AttributeValue* v) {
  if (v->kind == AttributeKind::kInteger) return &v->integer;
  if (v->kind == AttributeKind::kAddress) return &v->address;
  return reinterpret_cast<void*>(v->address);
}
// Returns what Fortran sees: a pointer that C has set, as an integer.
MPI_Aint as_integer(const AttributeValue& v) {
  return v.kind == AttributeKind::kInteger ? v.integer : v.address;
}

// --- Functions of the program

using FortranCopy = void(MPI_Fint* owner, MPI_Fint* keyval, void* extra_state, void* in, void* out,
                         MPI_Fint* flag, MPI_Fint* error);
using FortranDelete = void(MPI_Fint* owner, MPI_Fint* keyval, void* value, void* extra_state,
                           MPI_Fint* error);

// A value as a parameter of Fortran's: an INTEGER lies in the first bytes of an address.
struct Parameter {
  explicit Parameter(MPI_Aint value) : address(value) {}
  MPI_Aint address;
  MPI_Aint read(AttributeKind kind) const {
    return kind == AttributeKind::kInteger ? static_cast<MPI_Fint>(address) : address;
  }
};

int call_c_copy(const Keyval& k, const Owner& from, int keyval, void* in, void* out, int* flag) {
  if (from.kind == Kind::kComm) return k.copy(from.comm, keyval, k.extra_state, in, out, flag);
  void* function = reinterpret_cast<void*>(k.copy);
  return reinterpret_cast<MPI_Type_copy_attr_function*>(function)(from.type, keyval, k.extra_state,
                                                                  in, out, flag);
}

int call_c_delete(const Keyval& k, const Owner& owner, int keyval, void* value) {
  if (owner.kind == Kind::kComm) return k.remove(owner.comm, keyval, value, k.extra_state);
  void* function = reinterpret_cast<void*>(k.remove);
  return reinterpret_cast<MPI_Type_delete_attr_function*>(function)(owner.type, keyval, value,
                                                                    k.extra_state);
}

int call_copy(const Keyval& k, const Owner& from, int keyval, AttributeValue* in,
              AttributeValue* out, int* flag) {
  if (k.kind == AttributeKind::kPointer) {
    void *given = as_pointer(in), *made = nullptr;
    const int code = call_c_copy(k, from, keyval, given, &made, flag);
    // A copy of the address of a value that Fortran has set would outlive the value.
    *out = made == given ? *in : from_pointer(made);
    return code;
  }
  MPI_Fint handle = from.to_fortran(), error = MPI_SUCCESS;
  Parameter state(reinterpret_cast<MPI_Aint>(k.extra_state)), given(as_integer(*in)), made(0);
  void* function = reinterpret_cast<void*>(k.copy);
  reinterpret_cast<FortranCopy*>(function)(&handle, &keyval, &state.address, &given.address,
                                           &made.address, flag, &error);
  *out = from_integer(made.read(k.kind), k.kind);
  return error;
}

int call_delete(const Keyval& k, const Owner& owner, int keyval, AttributeValue* value) {
  if (k.kind == AttributeKind::kPointer) {
    return call_c_delete(k, owner, keyval, as_pointer(value));
  }
  MPI_Fint handle = owner.to_fortran(), error = MPI_SUCCESS;
  Parameter state(reinterpret_cast<MPI_Aint>(k.extra_state)), given(as_integer(*value));
  void* function = reinterpret_cast<void*>(k.remove);
  reinterpret_cast<FortranDelete*>(function)(&handle, &keyval, &given.address, &state.address,
                                             &error);
  return error;
}

// --- Keyvals and attributes

constexpr int kFirstKeyval = IMPI_HOST_COLOR + 1;  // below are the predefined ones

// A keyval is an index into the table, and says of which kind it is.
Keyval* find_keyval(Kind kind, int keyval) {
  const int i = (keyval - kFirstKeyval) / kKinds;
  if (keyval < kFirstKeyval || (keyval - kFirstKeyval) % kKinds != static_cast<int>(kind) ||
      i >= context->keyval_count || context->keyvals[i].references == 0) {
    return nullptr;
  }
  return &context->keyvals[i];
}

void drop(Keyval* k) { --k->references; }

int fail_keyval(const char* function, Kind kind, MPI_Comm comm, int keyval) {
  constexpr const char* kNames[kKinds] = {"communicators", "datatypes", "windows"};
  return fail(function, comm, MPI_ERR_KEYVAL, "%d is no attribute key of %s, or it was freed",
              keyval, kNames[static_cast<int>(kind)]);
}

// Returns MPI_SUCCESS if `keyval` may be used with the owner's attributes, else the code of the
// error that was raised.
int check_keyval(const char* name, const Owner& owner, int keyval) {
  if (find_keyval(owner.kind, keyval) != nullptr) return MPI_SUCCESS;
  return fail_keyval(name, owner.kind, owner.comm, keyval);
}

Attribute** find(const Owner& owner, int keyval) {
  Attribute** a = owner.attributes;
  while (*a != nullptr && (*a)->keyval != keyval) a = &(*a)->next;
  return a;
}

void add(const Owner& owner, int keyval, const AttributeValue& value) {
  ++find_keyval(owner.kind, keyval)->references;
  Attribute* a = make<Attribute>();
  *a = {keyval, value, *owner.attributes};
  *owner.attributes = a;
}

// Calls the delete function of one attribute, then drops the attribute. Returns the function's
// error, with which the attribute stays.
int remove(const Owner& owner, Attribute** place) {
  Attribute* a = *place;
  const Keyval k = *find_keyval(owner.kind, a->keyval);
  if (const int code = call_delete(k, owner, a->keyval, &a->value)) return code;
  // The function may have set or deleted other attributes of the object.
  for (place = owner.attributes; *place != a; place = &(*place)->next) {
    if (*place == nullptr) return MPI_SUCCESS;  // ... or this one
  }
  *place = a->next;
  drop(find_keyval(owner.kind, a->keyval));  // the function may have made the table of keys grow
  destroy(a);
  return MPI_SUCCESS;
}

// Returns a predefined attribute, which is a pointer to an integer. REQUIRES a predefined keyval.
const int* predefined(int keyval) {
  static const int kTagUpperBound = INT_MAX, kNoHost = MPI_PROC_NULL, kAnyRank = MPI_ANY_SOURCE;
  static const int kLocalClock = 0;
  switch (keyval) {
    case MPI_TAG_UB:
      return &kTagUpperBound;
    case MPI_HOST:
      return &kNoHost;
    case MPI_IO:
      return &kAnyRank;
    case MPI_WTIME_IS_GLOBAL:
      return &kLocalClock;
    case MPI_APPNUM:
      return &context->program;
    case MPI_UNIVERSE_SIZE:
      return &context->universe_size;
    case MPI_LASTUSEDCODE:
      context->last_used_code = MPI_ERR_LASTCODE + context->error_count;
      return &context->last_used_code;
    default:
      return nullptr;
  }
}

// Creates a keyval. `copy` and `remove_fn`: the functions of a communicator's keyval, or others
// that are cast to their types.
int create(const char* name, Kind kind, void* copy, void* remove_fn, int* keyval, void* extra_state,
           AttributeKind language = AttributeKind::kPointer) {
  require_active(name);
  if (copy == nullptr || remove_fn == nullptr || keyval == nullptr) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "an argument is a null pointer");
  }
  grow(&context->keyvals, context->keyval_count, &context->keyval_capacity);
  context->keyvals[context->keyval_count] = {
      reinterpret_cast<MPI_Comm_copy_attr_function*>(copy),
      reinterpret_cast<MPI_Comm_delete_attr_function*>(remove_fn), extra_state, language, 1};
  *keyval = kFirstKeyval + context->keyval_count++ * kKinds + static_cast<int>(kind);
  return MPI_SUCCESS;
}

template <class Copy, class Delete>
int create(const char* name, Kind kind, Copy* copy, Delete* remove_fn, int* keyval,
           void* extra_state) {
  return create(name, kind, reinterpret_cast<void*>(copy), reinterpret_cast<void*>(remove_fn),
                keyval, extra_state);
}

int free_key(const char* name, Kind kind, int* keyval) {
  require_active(name);
  Keyval* k = keyval == nullptr ? nullptr : find_keyval(kind, *keyval);
  if (k == nullptr) {
    return fail_keyval(name, kind, MPI_COMM_WORLD, keyval == nullptr ? -1 : *keyval);
  }
  drop(k);
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

int remove_one(const char* name, const Owner& owner, Attribute** place) {
  const int code = remove(owner, place);
  if (code == MPI_SUCCESS) return code;
  return fail(name, owner.comm, code, "the attribute's delete function returned %d", code);
}

int set(const char* name, const Owner& owner, int keyval, const AttributeValue& value) {
  if (const int code = check_keyval(name, owner, keyval)) return code;
  Attribute** place = find(owner, keyval);
  if (*place != nullptr) {
    if (const int code = remove_one(name, owner, place)) return code;
  }
  add(owner, keyval, value);
  return MPI_SUCCESS;
}

// Gets an attribute: *value becomes the pointer that C sees, *integer what Fortran sees. One of the
// two is null.
int get(const char* name, const Owner& owner, int keyval, void** value, MPI_Aint* integer,
        int* flag) {
  if (const int code = check_keyval(name, owner, keyval)) return code;
  Attribute* a = *find(owner, keyval);
  *flag = a != nullptr ? 1 : 0;
  if (a == nullptr) return MPI_SUCCESS;
  if (value != nullptr) *value = as_pointer(&a->value);
  if (integer != nullptr) *integer = as_integer(a->value);
  return MPI_SUCCESS;
}

int delete_one(const char* name, const Owner& owner, int keyval) {
  if (const int code = check_keyval(name, owner, keyval)) return code;
  Attribute** place = find(owner, keyval);
  return *place == nullptr ? MPI_SUCCESS : remove_one(name, owner, place);
}

// Copies `a` and the older attributes, oldest first, so that the copy's list is in the order of the
// original's.
int copy_from(const Owner& from, const Owner& to, Attribute* a) {
  if (a == nullptr) return MPI_SUCCESS;
  if (const int code = copy_from(from, to, a->next)) return code;
  const Keyval k = *find_keyval(from.kind, a->keyval);
  AttributeValue value = {};
  int flag = 0;
  const int code = call_copy(k, from, a->keyval, &a->value, &value, &flag);
  if (code != MPI_SUCCESS || flag == 0) return code;
  add(to, a->keyval, value);
  return MPI_SUCCESS;
}

int remove_all(const Owner& owner) {
  while (*owner.attributes != nullptr) {
    if (const int code = remove(owner, owner.attributes)) return code;
  }
  return MPI_SUCCESS;
}

int copy_all(const Owner& from, const Owner& to) {
  const int code = copy_from(from, to, *from.attributes);
  if (code != MPI_SUCCESS) remove_all(to);
  return code;
}

// --- With the checks of each kind

int set_comm(const char* name, MPI_Comm comm, int keyval, const AttributeValue& value) {
  return is_any_comm(comm) ? set(name, Owner(comm), keyval, value) : fail_comm(name);
}
int set_type(const char* name, MPI_Datatype type, int keyval, const AttributeValue& value) {
  if (const int code = check_type(name, type)) return code;
  return set(name, Owner(type), keyval, value);
}

// Communicators have predefined attributes, too.
int get_comm(const char* name, MPI_Comm comm, int keyval, void** value, MPI_Aint* integer,
             int* flag) {
  if (!is_any_comm(comm)) return fail_comm(name);
  *flag = 0;
  if (keyval < 0 || keyval >= kFirstKeyval) {
    return get(name, Owner(comm), keyval, value, integer, flag);
  }
  const int* p = predefined(keyval);
  if (p == nullptr) return MPI_SUCCESS;
  if (value != nullptr) *value = const_cast<int*>(p);
  if (integer != nullptr) *integer = *p;
  *flag = 1;
  return MPI_SUCCESS;
}
int get_type(const char* name, MPI_Datatype type, int keyval, void** value, MPI_Aint* integer,
             int* flag) {
  if (const int code = check_type(name, type)) return code;
  *flag = 0;
  return get(name, Owner(type), keyval, value, integer, flag);
}

int delete_of_comm(const char* name, MPI_Comm comm, int keyval) {
  return is_any_comm(comm) ? delete_one(name, Owner(comm), keyval) : fail_comm(name);
}

}  // namespace

int copy_attributes(MPI_Comm from, MPI_Comm to) { return copy_all(Owner(from), Owner(to)); }
int copy_attributes(MPI_Datatype from, MPI_Datatype to) { return copy_all(Owner(from), Owner(to)); }
int delete_attributes(MPI_Comm comm) { return remove_all(Owner(comm)); }
int delete_attributes(MPI_Datatype type) { return remove_all(Owner(type)); }

int comm_create_keyval(MPI_Comm_copy_attr_function* comm_copy_attr_fn,
                       MPI_Comm_delete_attr_function* comm_delete_attr_fn, int* comm_keyval,
                       void* extra_state) {
  return create("MPI_Comm_create_keyval", Kind::kComm, comm_copy_attr_fn, comm_delete_attr_fn,
                comm_keyval, extra_state);
}
int keyval_create(MPI_Copy_function* copy_fn, MPI_Delete_function* delete_fn, int* keyval,
                  void* extra_state) {
  return create("MPI_Keyval_create", Kind::kComm, copy_fn, delete_fn, keyval, extra_state);
}
int type_create_keyval(MPI_Type_copy_attr_function* type_copy_attr_fn,
                       MPI_Type_delete_attr_function* type_delete_attr_fn, int* type_keyval,
                       void* extra_state) {
  return create("MPI_Type_create_keyval", Kind::kType, type_copy_attr_fn, type_delete_attr_fn,
                type_keyval, extra_state);
}
int win_create_keyval(MPI_Win_copy_attr_function* win_copy_attr_fn,
                      MPI_Win_delete_attr_function* win_delete_attr_fn, int* win_keyval,
                      void* extra_state) {
  return create("MPI_Win_create_keyval", Kind::kWin, win_copy_attr_fn, win_delete_attr_fn,
                win_keyval, extra_state);
}

int comm_free_keyval(int* comm_keyval) {
  return free_key("MPI_Comm_free_keyval", Kind::kComm, comm_keyval);
}
int keyval_free(int* keyval) { return free_key("MPI_Keyval_free", Kind::kComm, keyval); }
int type_free_keyval(int* type_keyval) {
  return free_key("MPI_Type_free_keyval", Kind::kType, type_keyval);
}
int win_free_keyval(int* win_keyval) {
  return free_key("MPI_Win_free_keyval", Kind::kWin, win_keyval);
}

int comm_set_attr(MPI_Comm comm, int comm_keyval, void* attribute_val) {
  return set_comm("MPI_Comm_set_attr", comm, comm_keyval, from_pointer(attribute_val));
}
int attr_put(MPI_Comm comm, int keyval, void* attribute_val) {
  return set_comm("MPI_Attr_put", comm, keyval, from_pointer(attribute_val));
}
int type_set_attr(MPI_Datatype type, int type_keyval, void* attr_val) {
  return set_type("MPI_Type_set_attr", type, type_keyval, from_pointer(attr_val));
}

int comm_get_attr(MPI_Comm comm, int comm_keyval, void* attribute_val, int* flag) {
  return get_comm("MPI_Comm_get_attr", comm, comm_keyval, static_cast<void**>(attribute_val),
                  nullptr, flag);
}
int attr_get(MPI_Comm comm, int keyval, void* attribute_val, int* flag) {
  return get_comm("MPI_Attr_get", comm, keyval, static_cast<void**>(attribute_val), nullptr, flag);
}
int type_get_attr(MPI_Datatype type, int type_keyval, void* attribute_val, int* flag) {
  return get_type("MPI_Type_get_attr", type, type_keyval, static_cast<void**>(attribute_val),
                  nullptr, flag);
}

int comm_delete_attr(MPI_Comm comm, int comm_keyval) {
  return delete_of_comm("MPI_Comm_delete_attr", comm, comm_keyval);
}
int attr_delete(MPI_Comm comm, int keyval) {
  return delete_of_comm("MPI_Attr_delete", comm, keyval);
}
int type_delete_attr(MPI_Datatype type, int type_keyval) {
  constexpr const char* kName = "MPI_Type_delete_attr";
  if (const int code = check_type(kName, type)) return code;
  return delete_one(kName, Owner(type), type_keyval);
}

namespace {

int copy_nothing(int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}
int copy_value(void* in, void* out, int* flag) {
  *flag = 1;
  *static_cast<void**>(out) = in;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace rejoin::pmpi

// --- Functions that Fortran's face calls (mpifh/hooks.h)

using rejoin::pmpi::AttributeKind;
using rejoin::pmpi::Kind;
namespace {
AttributeKind kind_of(int is_integer) {
  return is_integer != 0 ? AttributeKind::kInteger : AttributeKind::kAddress;
}
}  // namespace
int rejoin_keyval_create(const char* name, char object, void* copy, void* remove, int* keyval,
                         MPI_Aint extra_state, int is_integer) {
  const Kind kind = object == 'c' ? Kind::kComm : object == 't' ? Kind::kType : Kind::kWin;
  return rejoin::pmpi::create(name, kind, copy, remove, keyval,
                              reinterpret_cast<void*>(extra_state), kind_of(is_integer));
}
int rejoin_attribute_set(const char* name, MPI_Comm comm, int keyval, MPI_Aint value,
                         int is_integer) {
  return rejoin::pmpi::set_comm(name, comm, keyval,
                                rejoin::pmpi::from_integer(value, kind_of(is_integer)));
}
int rejoin_attribute_get(const char* name, MPI_Comm comm, int keyval, MPI_Aint* value, int* flag) {
  return rejoin::pmpi::get_comm(name, comm, keyval, nullptr, value, flag);
}
int rejoin_type_attribute_set(const char* name, MPI_Datatype type, int keyval, MPI_Aint value) {
  return rejoin::pmpi::set_type(name, type, keyval,
                                rejoin::pmpi::from_integer(value, AttributeKind::kAddress));
}
int rejoin_type_attribute_get(const char* name, MPI_Datatype type, int keyval, MPI_Aint* value,
                              int* flag) {
  return rejoin::pmpi::get_type(name, type, keyval, nullptr, value, flag);
}

// The copy and delete functions that MPI predefines; mpi.h gives them these names.
using rejoin::pmpi::copy_nothing;
using rejoin::pmpi::copy_value;

int OMPI_C_MPI_COMM_NULL_COPY_FN(MPI_Comm, int, void*, void*, void*, int* flag) {
  return copy_nothing(flag);
}
int OMPI_C_MPI_TYPE_NULL_COPY_FN(MPI_Datatype, int, void*, void*, void*, int* flag) {
  return copy_nothing(flag);
}
int OMPI_C_MPI_WIN_NULL_COPY_FN(MPI_Win, int, void*, void*, void*, int* flag) {
  return copy_nothing(flag);
}
int OMPI_C_MPI_NULL_COPY_FN(MPI_Comm, int, void*, void*, void*, int* flag) {
  return copy_nothing(flag);
}
int OMPI_C_MPI_COMM_DUP_FN(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  return copy_value(in, out, flag);
}
int OMPI_C_MPI_TYPE_DUP_FN(MPI_Datatype, int, void*, void* in, void* out, int* flag) {
  return copy_value(in, out, flag);
}
int OMPI_C_MPI_WIN_DUP_FN(MPI_Win, int, void*, void* in, void* out, int* flag) {
  return copy_value(in, out, flag);
}
int OMPI_C_MPI_DUP_FN(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  return copy_value(in, out, flag);
}
int OMPI_C_MPI_COMM_NULL_DELETE_FN(MPI_Comm, int, void*, void*) { return MPI_SUCCESS; }
int OMPI_C_MPI_TYPE_NULL_DELETE_FN(MPI_Datatype, int, void*, void*) { return MPI_SUCCESS; }
int OMPI_C_MPI_WIN_NULL_DELETE_FN(MPI_Win, int, void*, void*) { return MPI_SUCCESS; }
int OMPI_C_MPI_NULL_DELETE_FN(MPI_Comm, int, void*, void*) { return MPI_SUCCESS; }
