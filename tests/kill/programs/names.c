// names: gathers whole arrays of which MPI has filled the beginning, as programs often do: names of
// the processor, of a communicator and of a type, the text of an error, the library's version.
// Another rank checks that the bytes after the text are zero.

#include <unistd.h>

#include "program.h"

static void fill_stack(unsigned char value) {
  volatile unsigned char left[8192];
  for (size_t i = 0; i < sizeof left; ++i) left[i] = value;
}

static void gather(const char* name, const char* text, int bytes) {
  check_context("%s", name);
  char* all = calloc((size_t)check_state.size, (size_t)bytes);
  OK(MPI_Allgather(text, bytes, MPI_CHAR, all, bytes, MPI_CHAR, MPI_COMM_WORLD));
  for (int r = 0; r < check_state.size; ++r) {
    const char* theirs = all + (size_t)r * (size_t)bytes;
    for (int i = (int)strlen(theirs); i < bytes; ++i) check_i64("behind the text", 0, theirs[i]);
  }
  free(all);
}

static void __attribute__((noinline)) gather_names(void) {
  char processor[MPI_MAX_PROCESSOR_NAME];
  char comm[MPI_MAX_OBJECT_NAME];
  char type[MPI_MAX_OBJECT_NAME];
  char error[MPI_MAX_ERROR_STRING];
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  OK(MPI_Get_processor_name(processor, &length));
  gather("processor", processor, sizeof processor);
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, comm, &length));
  gather("communicator", comm, sizeof comm);
  OK(MPI_Type_get_name(MPI_INT, type, &length));
  gather("type", type, sizeof type);
  OK(MPI_Error_string(MPI_ERR_TRUNCATE, error, &length));
  gather("error", error, sizeof error);
  OK(MPI_Get_library_version(version, &length));
  gather("version", version, sizeof version);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  for (int step = 0; step < 4; ++step) {
    fill_stack((unsigned char)(getpid() + step));
    gather_names();
  }
  return check_end();
}
