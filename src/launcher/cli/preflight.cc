#include "launcher/cli/preflight.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>

#include "launcher/agent/forbidden_calls.h"
#include "launcher/base/file.h"
#include "launcher/program/elf.h"
#include "launcher/program/program.h"

namespace rejoin::launcher {
namespace {

constexpr const char* kUnsupported[] = {
#include "launcher/unsupported.inc"
};

bool is_unsupported(std::string name) {
  if (name.starts_with("PMPI_")) name.erase(0, 1);
  const auto* end = std::end(kUnsupported);
  return std::find_if(std::begin(kUnsupported), end, [&](const char* u) { return name == u; }) !=
         end;
}

// The unsupported functions that every program linked by Open MPI's mpicxx imports, because the
// inline methods of the MPI C++ classes reference them.
constexpr const char* kOfEveryCxxProgram[] = {"MPI_Accumulate",
                                              "MPI_Comm_accept",
                                              "MPI_Comm_connect",
                                              "MPI_Comm_spawn",
                                              "MPI_Comm_spawn_multiple",
                                              "MPI_Get",
                                              "MPI_Put",
                                              "MPI_Win_call_errhandler",
                                              "MPI_Win_complete",
                                              "MPI_Win_delete_attr",
                                              "MPI_Win_fence",
                                              "MPI_Win_get_errhandler",
                                              "MPI_Win_get_group",
                                              "MPI_Win_get_name",
                                              "MPI_Win_lock",
                                              "MPI_Win_post",
                                              "MPI_Win_set_attr",
                                              "MPI_Win_set_errhandler",
                                              "MPI_Win_set_name",
                                              "MPI_Win_start",
                                              "MPI_Win_test",
                                              "MPI_Win_unlock",
                                              "MPI_Win_wait"};

// MPI functions that a program and its libraries import, and whether they can start threads.
struct Imports {
  std::set<std::string> functions;
  std::set<std::string> unsupported;
  std::set<std::string>
      perhaps;  // unsupported; imported by the C++ classes, so possibly never called
  bool threads = false;

  void add(std::string_view image) {
    for (const std::string& name : imports_of(image)) {
      if (name.starts_with("MPI_") || name.starts_with("PMPI_")) functions.insert(name);
      if (is_unsupported(name)) unsupported.insert(name);
      threads |= name == "pthread_create" || name == "GOMP_parallel";
    }
  }
  void excuse_cxx() {
    for (const char* name : kOfEveryCxxProgram) {
      if (unsupported.erase(name) > 0) perhaps.insert(name);
    }
  }
};

std::string joined(const std::set<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

void say(const std::string& line) { std::printf("  %s\n", line.c_str()); }

bool is_python(std::string_view name) {
  return name.substr(name.rfind('/') + 1).starts_with("python");
}

// Adds the imports of those of the program's libraries that call MPI themselves.
void add_libraries(const std::vector<std::string>& libraries, Imports& imports) {
  for (const std::string& library : libraries) {
    const auto image = MappedFile::open(library);
    if (!image.ok()) continue;
    const auto needed = needed_of(image.value().bytes());
    if (std::find(needed.begin(), needed.end(), "libmpi.so.40") == needed.end()) continue;
    if (library.substr(library.rfind('/') + 1).starts_with("libmpi")) continue;  // MPI's own
    imports.add(image.value().bytes());
  }
}

// Checks the libraries of Open MPI that programs with Fortran's modules mpi and mpi_f08 need.
// Returns whether all of them are installed.
bool check_fortran_modules(const std::vector<std::string>& needed,
                           const std::vector<std::string>& there) {
  bool all = true;
  for (const std::string& soname : needed) {
    if (!soname.starts_with("libmpi_usempi")) continue;
    const bool found = std::any_of(there.begin(), there.end(), [&](const std::string& library) {
      return library.ends_with("/" + soname);
    });
    say("uses a Fortran module of Open MPI, whose " + soname + " it needs at run time" +
        (found ? "" : ": it is missing (Debian's package libopenmpi3 has it)"));
    all &= found;
  }
  return all;
}

int check_elf(const std::string& name, const std::string& path, std::string_view image) {
  const std::string trouble = certain_trouble(name, path);
  if (!trouble.empty() && kind_of(image) != ElfKind::kLibrary) {
    std::printf("%s\n", trouble.c_str());
    return kExitFailure;
  }
  if (is_python(path)) {
    std::printf("%s: a Python interpreter\n", name.c_str());
    say("which modules its program loads, and what they call, is not known before it runs; mpi4py "
        "works");
    return 0;
  }
  const auto needed = needed_of(image);
  const bool is_library = kind_of(image) == ElfKind::kLibrary;
  const bool is_mpi = std::find(needed.begin(), needed.end(), "libmpi.so.40") != needed.end();
  Imports imports;
  imports.add(image);
  const std::string linker = interpreter_of(image);
  const bool is_glibc = linker.substr(linker.rfind('/') + 1).starts_with("ld-linux");
  const auto libraries = is_glibc ? libraries_of(path) : std::vector<std::string>();
  add_libraries(libraries, imports);
  if (std::find(needed.begin(), needed.end(), "libmpi_cxx.so.40") != needed.end()) {
    imports.excuse_cxx();
  }
  std::printf("%s: a 64-bit %s%s\n", name.c_str(), is_library ? "shared library" : "program",
              !is_mpi      ? ", not linked against MPI itself"
              : is_library ? ", linked against libmpi.so.40"
                           : ", linked against libmpi.so.40: ftrun runs it as it is");
  if (!imports.functions.empty()) {
    say("calls " + std::to_string(imports.functions.size()) + " functions of MPI" +
        (!imports.unsupported.empty() ? ""
         : imports.perhaps.empty()    ? ", all of them supported"
                                      : ", all of them supported, except perhaps these"));
  }
  if (!imports.perhaps.empty()) {
    say("linked with MPI's C++ classes, which import these functions even if the program does not "
        "call them; they are not supported, and a call is an MPI error: " +
        joined(imports.perhaps));
  }
  if (!imports.unsupported.empty()) {
    say("calls functions that are not supported and return an MPI error: " +
        joined(imports.unsupported));
  }
  if (imports.threads) {
    say("can start threads: if a rank dies of which several threads call MPI, all ranks go back to "
        "their newest snapshots (docs/fault-model.md)");
  }
  const bool whole = !is_glibc || check_fortran_modules(needed, libraries);
  return whole && imports.unsupported.empty() ? 0 : kExitFailure;
}

int check_file(const std::string& name) {
  // A library that a program loads later can be checked as well, and need not be executable.
  if (const auto library = MappedFile::open(name);
      library.ok() && kind_of(library.value().bytes()) == ElfKind::kLibrary) {
    return check_elf(name, name, library.value().bytes());
  }
  const auto path = check_program(name, "");
  if (!path.ok()) {
    std::fprintf(stderr, "rejoin: %s\n", path.error().text.c_str());
    return path.error().exit_code;
  }
  const auto image = MappedFile::open(path.value());
  if (!image.ok()) {
    std::fprintf(stderr, "rejoin: %s cannot be read\n", name.c_str());
    return kExitFailure;
  }
  const std::string_view bytes = image.value().bytes();
  if (kind_of(bytes) != ElfKind::kNone) return check_elf(name, path.value(), bytes);
  if (!bytes.starts_with("#!")) {
    std::fprintf(
        stderr,
        "rejoin: %s: neither a program nor a script that begins with #! and its interpreter\n",
        name.c_str());
    return kExitNotExecutable;
  }
  std::printf("%s: a script\n", name.c_str());
  say(is_python(interpreter_of(bytes))
          ? "of Python: which modules it loads, and what they call, is not known before it runs; "
            "mpi4py works"
          : "which programs it starts is not known before it runs; check these programs");
  return 0;
}

// What jobs lose on this system, whatever the program.
void check_system() {
  constexpr const char* kNoImages =
      "no images are written to a --checkpoint-dir, and --survive host has no effect";
  for (const std::string& loss : losses(find_forbidden_calls(), kNoImages)) {
    say(what_forbids() + " " + loss + " (docs/containers.md)");
  }
}

}  // namespace

std::string certain_trouble(const std::string& name, const std::string& path) {
  const auto image = MappedFile::open(path);
  if (!image.ok()) return {};
  for (const std::string& soname : needed_of(image.value().bytes())) {
    if (!soname.starts_with("libtsan.so")) continue;
    return name +
           " is instrumented by ThreadSanitizer, which leaves no address space for the journal: "
           "compile it without -fsanitize=thread";
  }
  switch (kind_of(image.value().bytes())) {
    case ElfKind::kStatic:
      return name +
             " is linked statically: Rejoin's library cannot be preloaded into it, and its MPI "
             "calls go to another library; link it dynamically";
    case ElfKind::kLibrary:
      return name + " is a shared library, not a program";
    case ElfKind::kTruncated:
      return name + " is truncated: the file is shorter than its headers say";
    case ElfKind::k32Bit:
      return name + " is a 32-bit program: Rejoin's library cannot be preloaded into it";
    default:
      return {};
  }
}

int run_check(const CheckOptions& options) {
  const int code = check_file(options.program);
  if (code <= kExitFailure) check_system();
  return code;
}

}  // namespace rejoin::launcher
