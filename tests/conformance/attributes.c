// Conformance of the attributes of datatypes: keyvals, setting, getting, deleting, what
// MPI_Type_dup copies and MPI_Type_free deletes, in which order, and the errors of the program's
// functions.

#include <mpi.h>

#include "check.h"

typedef struct {
  int copied, deleted;
  int keyval;  // the argument of the newest call
  MPI_Datatype type;
  void* value;
  void* extra;
  int order[8];  // keyvals whose values were deleted
} Calls;
static Calls calls;

static int copy_next(MPI_Datatype type, int keyval, void* extra, void* in, void* out, int* flag) {
  calls.copied += 1;
  calls.keyval = keyval;
  calls.type = type;
  calls.extra = extra;
  *(char**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int copy_refused(MPI_Datatype type, int keyval, void* extra, void* in, void* out,
                        int* flag) {
  (void)type, (void)keyval, (void)extra, (void)in, (void)out;
  *flag = 0;
  return MPI_ERR_OTHER;
}

static int delete_noted(MPI_Datatype type, int keyval, void* value, void* extra) {
  if (calls.deleted < 8) calls.order[calls.deleted] = keyval;
  calls.deleted += 1;
  calls.keyval = keyval;
  calls.type = type;
  calls.value = value;
  calls.extra = extra;
  return MPI_SUCCESS;
}

static int deletes_refused;
static int delete_refused(MPI_Datatype type, int keyval, void* value, void* extra) {
  (void)type, (void)keyval, (void)value, (void)extra;
  return deletes_refused-- > 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void forget_calls(void) { memset(&calls, 0, sizeof calls); }

static char text[] = "abc";
static char state[1];

static void check_attribute(const char* what, MPI_Datatype type, int keyval, const void* expected) {
  void* value = NULL;
  int flag = -1;
  OK(MPI_Type_get_attr(type, keyval, &value, &flag));
  check_i64(what, expected != NULL, flag);
  if (flag) check_true(what, value == expected);
}

/** Sets an attribute, gets it, sets it again and deletes it. */
static void test_values(MPI_Datatype type) {
  int key = MPI_KEYVAL_INVALID;
  OK(MPI_Type_create_keyval(copy_next, delete_noted, &key, state));
  check_true("a keyval", key != MPI_KEYVAL_INVALID);
  check_attribute("not set", type, key, NULL);
  OK(MPI_Type_set_attr(type, key, text));
  check_attribute("set", type, key, text);
  forget_calls();
  OK(MPI_Type_set_attr(type, key, text + 1));
  check_i64("the old value is deleted", 1, calls.deleted);
  check_true("what the delete function is given", calls.value == text && calls.extra == state &&
                                                      calls.keyval == key && calls.type == type);
  check_attribute("set again", type, key, text + 1);
  OK(MPI_Type_delete_attr(type, key));
  check_i64("deleted", 2, calls.deleted);
  check_true("the new value is deleted", calls.value == text + 1);
  check_attribute("no more", type, key, NULL);
  OK(MPI_Type_free_keyval(&key));
  check_i64("a freed keyval", MPI_KEYVAL_INVALID, key);
}

/** Copies attributes with the program's function, with none, and with the two that MPI defines. */
static void test_copies(void) {
  int next, null, same;
  MPI_Datatype type, copy;
  OK(MPI_Type_contiguous(3, MPI_INT, &type));
  OK(MPI_Type_create_keyval(copy_next, delete_noted, &next, state));
  OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_noted, &null, NULL));
  OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &same, NULL));
  OK(MPI_Type_set_attr(type, next, text));
  OK(MPI_Type_set_attr(type, null, text));
  OK(MPI_Type_set_attr(type, same, text));
  forget_calls();
  OK(MPI_Type_dup(type, &copy));
  check_i64("calls of the copy function", 1, calls.copied);
  check_true("what the copy function is given",
             calls.type == type && calls.keyval == next && calls.extra == state);
  check_attribute("what the copy function gave", copy, next, text + 1);
  check_attribute("MPI_TYPE_NULL_COPY_FN", copy, null, NULL);
  check_attribute("MPI_TYPE_DUP_FN", copy, same, text);
  check_attribute("the original's", type, next, text);
  // A type that is not a duplicate has no attributes.
  MPI_Datatype larger;
  OK(MPI_Type_contiguous(2, copy, &larger));
  check_attribute("a type made of it", larger, same, NULL);
  OK(MPI_Type_free(&larger));
  check_i64("nothing deleted yet", 0, calls.deleted);

  // Freed keyvals exist as long as attributes use them.
  int freed = next;
  OK(MPI_Type_free_keyval(&freed));
  MPI_Datatype handle = copy;
  OK(MPI_Type_free(&copy));
  check_i64("the copy's attributes are deleted", 1, calls.deleted);
  check_true("the copy's value",
             calls.type == handle && calls.value == text + 1 && calls.keyval == next);
  OK(MPI_Type_free(&type));
  check_i64("the original's attributes are deleted", 3, calls.deleted);
  OK(MPI_Type_free_keyval(&null));
  OK(MPI_Type_free_keyval(&same));
}

/** MPI_Type_free deletes the newest attribute first. */
static void test_order(void) {
  int keys[3];
  MPI_Datatype type;
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
  for (int i = 0; i < 3; ++i) {
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_noted, &keys[i], NULL));
    OK(MPI_Type_set_attr(type, keys[i], text));
  }
  forget_calls();
  OK(MPI_Type_free(&type));
  check_i64("all are deleted", 3, calls.deleted);
  for (int i = 0; i < 3; ++i) check_true("the order", calls.order[i] == keys[2 - i]);
  for (int i = 0; i < 3; ++i) OK(MPI_Type_free_keyval(&keys[i]));
}

/** Sends a message of a type with attributes. */
static void test_use(void) {
  int key;
  int in[4] = {-1, -1, -1, -1};
  const int out[4] = {check_state.rank, 0, check_state.rank + 10, 0};
  MPI_Datatype type;
  MPI_Request request;
  OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_noted, &key, NULL));
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  OK(MPI_Type_set_attr(type, key, text));
  OK(MPI_Irecv(in, 1, type, check_state.rank, 7, MPI_COMM_WORLD, &request));
  OK(MPI_Send(out, 1, type, check_state.rank, 7, MPI_COMM_WORLD));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  forget_calls();
  OK(MPI_Type_free(&type));
  check_i64("deleted with its handle", 1, calls.deleted);
  const int expected[4] = {check_state.rank, -1, check_state.rank + 10, -1};
  check_ints("the message", expected, in, 4);
  OK(MPI_Type_free_keyval(&key));
}

/** The program's copy and delete functions return errors. */
static void test_errors(void) {
  int key, other, windows;
  MPI_Datatype type, copy = MPI_DATATYPE_NULL;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Type_contiguous(3, MPI_INT, &type));
  OK(MPI_Type_create_keyval(copy_refused, delete_refused, &key, NULL));
  OK(MPI_Type_set_attr(type, key, text));
  // Open MPI returns another code than the function.
  check_true("a copy function that fails", MPI_Type_dup(type, &copy) != MPI_SUCCESS);
  deletes_refused = 1;
  check_true("a delete function that fails", MPI_Type_delete_attr(type, key) != MPI_SUCCESS);
  check_attribute("still there", type, key, text);
  OK(MPI_Type_delete_attr(type, key));
  check_attribute("gone", type, key, NULL);
  OK(MPI_Type_free_keyval(&key));
  OK(MPI_Type_free(&type));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &windows, NULL));
  OK(MPI_Comm_free_keyval(&other));
  OK(MPI_Win_free_keyval(&windows));
  check_i64("a freed keyval of windows", MPI_KEYVAL_INVALID, windows);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  check_context("attributes");
  MPI_Datatype derived;
  OK(MPI_Type_vector(2, 1, 2, MPI_INT, &derived));
  test_values(derived);
  OK(MPI_Type_free(&derived));
  test_values(MPI_INT);
  check_section("values");
  test_copies();
  check_section("copies");
  test_order();
  check_section("order");
  test_use();
  check_section("use");
  test_errors();
  check_section("errors");
  return check_end();
}
