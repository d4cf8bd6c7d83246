#include "launcher/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "launcher/base/file.h"
#include "launcher/program/elf.h"
#include "wire/messages.h"

namespace rejoin::launcher {
namespace {

bool is_executable_file(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Returns `path` as an absolute path.
std::string absolute(const std::string& path) {
  char here[PATH_MAX];
  if (path[0] == '/' || getcwd(here, sizeof here) == nullptr) return path;
  return std::string(here) + "/" + path;
}

// Checked here because the kernel's "No such file or directory" would not name the interpreter.
std::optional<Error> check_interpreter(const std::string& name, std::string_view image) {
  const std::string interpreter = interpreter_of(image);
  if (interpreter.empty()) return {};
  if (has_windows_line_end(image)) {
    return Error{name +
                     ": its first line ends with a carriage return, as on Windows (convert it with "
                     "dos2unix, or sed -i 's/\\r$//')",
                 kExitNotExecutable};
  }
  if (access(interpreter.c_str(), F_OK) == 0) return {};
  return Error{name + ": its interpreter " + interpreter + " does not exist", kExitNotFound};
}

// A program of another MPI would find none of its functions in the preloaded library.
Result<std::string> check_abi(const std::string& name, const std::string& path) {
  const auto image = MappedFile::open(path);
  if (!image.ok()) return path;  // executable, but not readable
  if (const auto error = check_interpreter(name, image.value().bytes())) return *error;
  for (const std::string& soname : needed_of(image.value().bytes())) {
    if (is_foreign_mpi(soname)) return Error{foreign_mpi_text(name, soname)};
  }
  return path;
}

using Environment = std::vector<std::string>;

std::string* find_variable(Environment& environment, const std::string& name) {
  for (std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return &entry;
    }
  }
  return nullptr;
}

void set_variable(Environment& environment, const std::string& name, const std::string& value) {
  if (std::string* entry = find_variable(environment, name)) {
    *entry = name + "=" + value;
  } else {
    environment.push_back(name + "=" + value);
  }
}

// Variables in which Open MPI, PMIx, MPICH and Intel MPI give a process its rank.
constexpr const char* kRankVariables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
constexpr const char* kSizeVariables[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_UNIVERSE_SIZE", "PMI_SIZE"};
// The same on the rank's node.
constexpr const char* kLocalRankVariables[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                               "OMPI_COMM_WORLD_NODE_RANK", "MPI_LOCALRANKID"};
constexpr const char* kLocalSizeVariables[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};

// Whether another launcher set this variable to describe its job, which is not this one.
bool is_of_another_launcher(std::string_view entry) {
  for (const std::string_view prefix :
       {"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE=", "OMPI_APP_CTX_", "PMIX_", "PMI_", "PMI2_",
        "HYDI_", "HYDRA_", "MPI_LOCAL",
        "SLURM_STEP_NUM_TASKS=", "SLURM_PROCID=", "SLURM_LOCALID="}) {
    if (entry.starts_with(prefix)) return true;
  }
  return false;
}

// Returns a path of the directory without spaces and colons, which LD_PRELOAD and LD_LIBRARY_PATH
// cannot contain. It is valid while this process lives.
std::string for_dynamic_linker(const std::string& directory) {
  if (directory.find_first_of(" :;") == std::string::npos) return directory;
  static const int kept = open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (kept < 0) return directory;
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(kept);
}

bool needs_asan(const std::string& path) {
  const auto image = MappedFile::open(path);
  if (!image.ok()) return false;
  const auto needed = needed_of(image.value().bytes());
  return std::any_of(needed.begin(), needed.end(),
                     [](const std::string& n) { return n.starts_with("libasan.so"); });
}

// Returns LD_PRELOAD: `others`, then our libraries. In this order a function that another preload
// defines, such as a profiler's MPI_Send, calls ours. Our libraries appear once, also for a job
// inside a job.
Result<std::string> preload_of(const std::string& directory, bool libc_recording,
                               const std::string& others) {
  std::string ours;
  for (const char* file : {"librejoin_libc.so", "libmpi.so.40"}) {
    if (!libc_recording && file == std::string_view("librejoin_libc.so")) continue;
    const std::string path = directory + "/" + file;
    if (access(path.c_str(), R_OK) != 0) {
      return Error{path + " is missing; it belongs to this ftrun: build or install them together"};
    }
    ours += (ours.empty() ? "" : ":") + path;
  }
  std::string list;
  for (std::size_t at = 0; at < others.size();) {
    const std::size_t end = std::min(others.find_first_of(" :", at), others.size());
    const std::string other = others.substr(at, end - at);
    if (!other.empty() && (":" + list + ours + ":").find(":" + other + ":") == std::string::npos) {
      list += other + ":";
    }
    at = end + 1;
  }
  return list + ours;
}

}  // namespace

std::string find_program(const std::string& name) {
  const char* variable = getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string directory = end == at ? "." : path.substr(at, end - at);
    const std::string candidate = directory + "/" + name;
    if (is_executable_file(candidate)) return candidate;
    at = end + 1;
  }
  return {};
}

std::vector<std::string> libraries_of(const std::string& path) {
  std::string quoted;
  for (const char c : path) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  FILE* pipe = popen(("LD_TRACE_LOADED_OBJECTS=1 '" + quoted + "' 2> /dev/null").c_str(), "re");
  std::vector<std::string> libraries;
  char line[PATH_MAX + 256];
  while (pipe != nullptr && fgets(line, sizeof line, pipe) != nullptr) {
    // "NAME => PATH (ADDRESS)", or a path alone.
    const char* arrow = strstr(line, " => /");
    const char* begin = arrow != nullptr ? arrow + 4 : line + 1;
    const char* end = strstr(line, " (0x");
    if (begin[0] == '/' && end > begin) libraries.emplace_back(begin, end);
  }
  if (pipe != nullptr) pclose(pipe);
  return libraries;
}

Result<std::string> check_program(const std::string& name, const std::string& directory) {
  if (name.empty()) return Error{"the program's name is empty", kExitNotFound};
  if (name.find('/') == std::string::npos) {
    const std::string found = find_program(name);
    if (!found.empty()) return check_abi(name, directory.empty() ? found : absolute(found));
    const std::string hint = access(name.c_str(), F_OK) == 0
                                 ? "; to run the file in this directory, write ./" + name
                                 : "";
    return Error{name + ": there is no such program in PATH" + hint, kExitNotFound};
  }
  const bool as_it_is = directory.empty() || name[0] == '/';
  const std::string path = as_it_is ? name : absolute(directory + "/" + name);
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return Error{name + ": " + error_text(errno),
                 errno == EACCES ? kExitNotExecutable : kExitNotFound};
  }
  if (S_ISDIR(info.st_mode))
    return Error{name + ": is a directory, not a program", kExitNotExecutable};
  if (!is_executable_file(path)) {
    return Error{name + ": not executable (make it executable with chmod +x)", kExitNotExecutable};
  }
  return check_abi(name, path);
}

std::string library_directory() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  std::string prefix(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  for (int level = 0; level < 2; ++level) prefix.resize(std::min(prefix.rfind('/'), prefix.size()));
  const bool installed = access((prefix + "/lib/rejoin/libmpi.so.40").c_str(), F_OK) == 0;
  return for_dynamic_linker(prefix + (installed ? "/lib/rejoin" : "/lib"));
}

Result<std::vector<std::string>> environment_of(std::uint32_t rank, const Surroundings& all,
                                                const RunOptions& options) {
  const std::size_t program = options.number_of_program(rank);
  const std::string ranks = std::to_string(options.ranks());
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_of_another_launcher(*entry)) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.programs[program].exports) {
    if (value) set_variable(environment, name, *value);
  }
  const std::string* preloaded = find_variable(environment, "LD_PRELOAD");
  const auto preload = preload_of(all.lib_directory, options.libc_recording,
                                  preloaded != nullptr ? preloaded->substr(11) : "");
  if (!preload.ok()) return preload.error();
  set_variable(environment, "LD_PRELOAD", preload.value());
  // AddressSanitizer refuses to start if it is not the first library. It also works after ours,
  // which define no memory functions.
  const ProgramOptions& mine = options.programs[program];
  const auto file = check_program(mine.command[0], mine.working_directory);
  if (file.ok() && needs_asan(file.value())) {
    const std::string* given = find_variable(environment, "ASAN_OPTIONS");
    const std::string before = given != nullptr ? given->substr(13) + ":" : "";
    set_variable(environment, "ASAN_OPTIONS", before + "verify_asan_link_order=0");
  }
  // Programs that need libmpi_cxx.so.40 must find ours, not one that needs another MPI.
  const std::string* path = find_variable(environment, "LD_LIBRARY_PATH");
  const std::string paths = path != nullptr ? ":" + path->substr(16) : "";
  set_variable(environment, "LD_LIBRARY_PATH", all.lib_directory + paths);
  // Without the second variable, ranks would replace compiled modules that others have just read.
  for (const auto& [name, value] :
       {std::pair{"PYTHONHASHSEED", "0"}, std::pair{"PYTHONDONTWRITEBYTECODE", "1"}}) {
    if (find_variable(environment, name) == nullptr) set_variable(environment, name, value);
  }
  set_variable(environment, wire::kEnvSocket, all.socket);
  set_variable(environment, wire::kEnvSecret, all.secret);
  set_variable(environment, wire::kEnvRank, std::to_string(rank));
  set_variable(environment, wire::kEnvLibcRecording, options.libc_recording ? "on" : "off");
  set_variable(environment, wire::kEnvProgram, std::to_string(program));
  const RunOptions::Place place = options.place_of(rank);
  const std::string local_rank = std::to_string(place.rank);
  const std::string local_ranks = std::to_string(place.size);
  const auto set_all = [&](const auto& names, const std::string& value) {
    for (const char* name : names) set_variable(environment, name, value);
  };
  set_all(kRankVariables, std::to_string(rank));
  set_all(kSizeVariables, ranks);
  set_all(kLocalRankVariables, local_rank);
  set_all(kLocalSizeVariables, local_ranks);
  if (!options.torch) return environment;
  set_variable(environment, "RANK", std::to_string(rank));
  set_variable(environment, "LOCAL_RANK", local_rank);
  set_variable(environment, "WORLD_SIZE", ranks);
  set_variable(environment, "LOCAL_WORLD_SIZE", local_ranks);
  for (const auto& [name, value] :
       {std::pair{"MASTER_ADDR", "127.0.0.1"}, std::pair{"MASTER_PORT", "29500"}}) {
    if (find_variable(environment, name) == nullptr) set_variable(environment, name, value);
  }
  return environment;
}

}  // namespace rejoin::launcher
