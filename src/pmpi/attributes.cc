// Attributes of communicators, under their names of MPI 2 and of MPI 1.
#include "pmpi/attributes.h"

#include <limits.h>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/mpifh/hooks.h"

namespace rejoin::pmpi {

struct AttributeValue {
  AttributeKind kind;
  MPI_Fint integer;  // kInteger
  MPI_Aint address;  // kAddress; a kPointer
};

struct Attribute {
  int keyval;
  AttributeValue value;
  Attribute* next;
};

namespace {

// --- How each language sees a value (MPI 3.1, section 17.2.7)

AttributeValue from_pointer(void* p) {
  return {AttributeKind::kPointer, 0, reinterpret_cast<MPI_Aint>(p)};
}
AttributeValue from_integer(MPI_Aint value, AttributeKind kind) {
  return {kind, static_cast<MPI_Fint>(value), value};
}

// C is given the address of what Fortran has set.
void* as_pointer(AttributeValue* v) {
  if (v->kind == AttributeKind::kInteger) return &v->integer;
  if (v->kind == AttributeKind::kAddress) return &v->address;
  return reinterpret_cast<void*>(v->address);
}
// Fortran is given the pointer that C has set as an integer.
MPI_Aint as_integer(const AttributeValue& v) {
  return v.kind == AttributeKind::kInteger ? v.integer : v.address;
}

// --- Functions of the program

using FortranCopy = void(MPI_Fint* comm, MPI_Fint* keyval, void* extra_state, void* in, void* out,
                         MPI_Fint* flag, MPI_Fint* error);
using FortranDelete = void(MPI_Fint* comm, MPI_Fint* keyval, void* value, void* extra_state,
                           MPI_Fint* error);

// A value as a parameter of Fortran's: an INTEGER lies in the first bytes of an address.
struct Parameter {
  explicit Parameter(MPI_Aint value) : address(value) {}
  MPI_Aint address;
  MPI_Aint read(AttributeKind kind) const {
    return kind == AttributeKind::kInteger ? static_cast<MPI_Fint>(address) : address;
  }
};

int call_copy(const Keyval& k, MPI_Comm comm, int keyval, AttributeValue* in, AttributeValue* out,
              int* flag) {
  if (k.kind == AttributeKind::kPointer) {
    void *given = as_pointer(in), *made = nullptr;
    const int code = k.copy(comm, keyval, k.extra_state, given, &made, flag);
    // A copy of the address of a value that Fortran has set would outlive the value.
    *out = made == given ? *in : from_pointer(made);
    return code;
  }
  MPI_Fint handle = comm_c2f(comm), error = MPI_SUCCESS;
  Parameter state(reinterpret_cast<MPI_Aint>(k.extra_state)), given(as_integer(*in)), made(0);
  void* function = reinterpret_cast<void*>(k.copy);
  reinterpret_cast<FortranCopy*>(function)(&handle, &keyval, &state.address, &given.address,
                                           &made.address, flag, &error);
  *out = from_integer(made.read(k.kind), k.kind);
  return error;
}

int call_delete(const Keyval& k, MPI_Comm comm, int keyval, AttributeValue* value) {
  if (k.kind == AttributeKind::kPointer) {
    return k.remove(comm, keyval, as_pointer(value), k.extra_state);
  }
  MPI_Fint handle = comm_c2f(comm), error = MPI_SUCCESS;
  Parameter state(reinterpret_cast<MPI_Aint>(k.extra_state)), given(as_integer(*value));
  void* function = reinterpret_cast<void*>(k.remove);
  reinterpret_cast<FortranDelete*>(function)(&handle, &keyval, &given.address, &state.address,
                                             &error);
  return error;
}

// --- Keyvals and attributes

constexpr int kFirstKeyval = IMPI_HOST_COLOR + 1;  // below are the predefined ones

Keyval* find_keyval(int keyval) {
  const int i = keyval - kFirstKeyval;
  if (i < 0 || i >= context->keyval_count || context->keyvals[i].references == 0) return nullptr;
  return &context->keyvals[i];
}

void drop(Keyval* k) { --k->references; }

int fail_keyval(const char* function, MPI_Comm comm, int keyval) {
  return fail(function, comm, MPI_ERR_KEYVAL, "%d is no attribute key, or it was freed", keyval);
}

Attribute** find(MPI_Comm comm, int keyval) {
  Attribute** a = &comm->attributes;
  while (*a != nullptr && (*a)->keyval != keyval) a = &(*a)->next;
  return a;
}

// The delete function of one attribute, then the attribute. Returns the function's error.
int remove(MPI_Comm comm, Attribute** place) {
  Attribute* a = *place;
  const Keyval k = *find_keyval(a->keyval);
  if (const int code = call_delete(k, comm, a->keyval, &a->value)) return code;
  *place = a->next;
  drop(find_keyval(a->keyval));  // the function may have made the table of keys grow
  destroy(a);
  return MPI_SUCCESS;
}

// Predefined attributes: pointers to integers. REQUIRES a predefined keyval.
const int* predefined(int keyval) {
  static const int kTagUpperBound = INT_MAX, kNoHost = MPI_PROC_NULL, kAnyRank = MPI_ANY_SOURCE;
  static const int kLocalClock = 0, kOnlyProgram = 0;
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
      return &kOnlyProgram;
    case MPI_UNIVERSE_SIZE:
      return &context->universe_size;
    case MPI_LASTUSEDCODE:
      context->last_used_code = MPI_ERR_LASTCODE + context->error_count;
      return &context->last_used_code;
    default:
      return nullptr;
  }
}

int create(const char* name, MPI_Comm_copy_attr_function* copy,
           MPI_Comm_delete_attr_function* remove_fn, int* keyval, void* extra_state,
           AttributeKind kind = AttributeKind::kPointer) {
  require_active(name);
  if (copy == nullptr || remove_fn == nullptr || keyval == nullptr) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "an argument is a null pointer");
  }
  grow(&context->keyvals, context->keyval_count, &context->keyval_capacity);
  context->keyvals[context->keyval_count] = {copy, remove_fn, extra_state, kind, 1};
  *keyval = kFirstKeyval + context->keyval_count++;
  return MPI_SUCCESS;
}

int free_key(const char* name, int* keyval) {
  require_active(name);
  Keyval* k = keyval == nullptr ? nullptr : find_keyval(*keyval);
  if (k == nullptr) return fail_keyval(name, MPI_COMM_WORLD, keyval == nullptr ? -1 : *keyval);
  drop(k);
  *keyval = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

int set(const char* name, MPI_Comm comm, int keyval, const AttributeValue& value) {
  if (!is_any_comm(comm)) return fail_comm(name);
  if (find_keyval(keyval) == nullptr) return fail_keyval(name, comm, keyval);
  Attribute** place = find(comm, keyval);
  if (*place != nullptr) {
    if (const int code = remove(comm, place)) {
      return fail(name, comm, code, "the attribute's delete function returned %d", code);
    }
  }
  ++find_keyval(keyval)->references;
  Attribute* a = make<Attribute>();
  *a = {keyval, value, comm->attributes};
  comm->attributes = a;
  return MPI_SUCCESS;
}

// `value` is given the pointer that C sees, `integer` what Fortran sees; one of them is null.
int get(const char* name, MPI_Comm comm, int keyval, void** value, MPI_Aint* integer, int* flag) {
  if (!is_any_comm(comm)) return fail_comm(name);
  *flag = 0;
  if (keyval >= 0 && keyval < kFirstKeyval) {
    const int* p = predefined(keyval);
    if (p == nullptr) return MPI_SUCCESS;
    if (value != nullptr) *value = const_cast<int*>(p);
    if (integer != nullptr) *integer = *p;
  } else {
    if (find_keyval(keyval) == nullptr) return fail_keyval(name, comm, keyval);
    Attribute* a = *find(comm, keyval);
    if (a == nullptr) return MPI_SUCCESS;
    if (value != nullptr) *value = as_pointer(&a->value);
    if (integer != nullptr) *integer = as_integer(a->value);
  }
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_one(const char* name, MPI_Comm comm, int keyval) {
  if (!is_any_comm(comm)) return fail_comm(name);
  if (find_keyval(keyval) == nullptr) return fail_keyval(name, comm, keyval);
  Attribute** place = find(comm, keyval);
  if (*place == nullptr) return MPI_SUCCESS;
  if (const int code = remove(comm, place)) {
    return fail(name, comm, code, "the attribute's delete function returned %d", code);
  }
  return MPI_SUCCESS;
}

// Oldest first, so that the copy's list is in the order of the original's.
int copy_from(MPI_Comm from, MPI_Comm to, Attribute* a) {
  if (a == nullptr) return MPI_SUCCESS;
  if (const int code = copy_from(from, to, a->next)) return code;
  const Keyval k = *find_keyval(a->keyval);
  AttributeValue value = {};
  int flag = 0;
  const int code = call_copy(k, from, a->keyval, &a->value, &value, &flag);
  if (code != MPI_SUCCESS || flag == 0) return code;
  ++find_keyval(a->keyval)->references;
  Attribute* copy = make<Attribute>();
  *copy = {a->keyval, value, to->attributes};
  to->attributes = copy;
  return MPI_SUCCESS;
}

}  // namespace

int copy_attributes(MPI_Comm from, MPI_Comm to) {
  const int code = copy_from(from, to, from->attributes);
  if (code != MPI_SUCCESS) delete_attributes(to);
  return code;
}

int delete_attributes(MPI_Comm comm) {
  while (comm->attributes != nullptr) {
    if (const int code = remove(comm, &comm->attributes)) return code;
  }
  return MPI_SUCCESS;
}

int comm_create_keyval(MPI_Comm_copy_attr_function* comm_copy_attr_fn,
                       MPI_Comm_delete_attr_function* comm_delete_attr_fn, int* comm_keyval,
                       void* extra_state) {
  return create("MPI_Comm_create_keyval", comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval,
                extra_state);
}
int keyval_create(MPI_Copy_function* copy_fn, MPI_Delete_function* delete_fn, int* keyval,
                  void* extra_state) {
  return create("MPI_Keyval_create", copy_fn, delete_fn, keyval, extra_state);
}
int comm_free_keyval(int* comm_keyval) { return free_key("MPI_Comm_free_keyval", comm_keyval); }
int keyval_free(int* keyval) { return free_key("MPI_Keyval_free", keyval); }
int comm_set_attr(MPI_Comm comm, int comm_keyval, void* attribute_val) {
  return set("MPI_Comm_set_attr", comm, comm_keyval, from_pointer(attribute_val));
}
int attr_put(MPI_Comm comm, int keyval, void* attribute_val) {
  return set("MPI_Attr_put", comm, keyval, from_pointer(attribute_val));
}
int comm_get_attr(MPI_Comm comm, int comm_keyval, void* attribute_val, int* flag) {
  return get("MPI_Comm_get_attr", comm, comm_keyval, static_cast<void**>(attribute_val), nullptr,
             flag);
}
int attr_get(MPI_Comm comm, int keyval, void* attribute_val, int* flag) {
  return get("MPI_Attr_get", comm, keyval, static_cast<void**>(attribute_val), nullptr, flag);
}
int comm_delete_attr(MPI_Comm comm, int comm_keyval) {
  return delete_one("MPI_Comm_delete_attr", comm, comm_keyval);
}
int attr_delete(MPI_Comm comm, int keyval) { return delete_one("MPI_Attr_delete", comm, keyval); }

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

// What Fortran calls (mpifh/hooks.h).
using rejoin::pmpi::AttributeKind;
int rejoin_keyval_create(const char* name, void* copy, void* remove, int* keyval,
                         MPI_Aint extra_state, int is_integer) {
  return rejoin::pmpi::create(name, reinterpret_cast<MPI_Comm_copy_attr_function*>(copy),
                              reinterpret_cast<MPI_Comm_delete_attr_function*>(remove), keyval,
                              reinterpret_cast<void*>(extra_state),
                              is_integer != 0 ? AttributeKind::kInteger : AttributeKind::kAddress);
}
int rejoin_attribute_set(const char* name, MPI_Comm comm, int keyval, MPI_Aint value,
                         int is_integer) {
  const auto kind = is_integer != 0 ? AttributeKind::kInteger : AttributeKind::kAddress;
  return rejoin::pmpi::set(name, comm, keyval, rejoin::pmpi::from_integer(value, kind));
}
int rejoin_attribute_get(const char* name, MPI_Comm comm, int keyval, MPI_Aint* value, int* flag) {
  return rejoin::pmpi::get(name, comm, keyval, nullptr, value, flag);
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
