// Undoing changes of file names, with interruptions after every step.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/agent/file_changes.h"
#include "libc_recording/identity.h"

namespace rejoin::launcher {
namespace {

using wire::FileChange;

constexpr std::uint64_t kImage = 3;      // the number of the image of the only rank
constexpr std::uint64_t kAtTheCut = 10;  // length of its observation log, in elements

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::uint32_t file_at(const std::string& path) {
  return libc_recording::find_file(statx, AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW).file.file;
}

// A rank's working directory and its file log.
class Work {
 public:
  Work() {
    char name[] = "/tmp/rejoin-names-XXXXXX";
    root_ = mkdtemp(name);
    std::filesystem::create_directory(logs());
    std::filesystem::create_directory(root_ + "/tree");
    wire::FileLogHead head = {};
    std::memcpy(head.magic, wire::kFileLogMagic, sizeof head.magic);
    head.image = kImage;
    head.sum = wire::sum_of_head(head);
    std::ofstream(log()).write(reinterpret_cast<const char*>(&head), sizeof head);
    write(at("a"), "first a");
    write(at("b"), "first b");
    write(at("c"), "first c");
    std::filesystem::create_directory(at("empty"));
  }
  ~Work() { std::filesystem::remove_all(root_); }

  std::string at(const std::string& name) const { return root_ + "/tree/" + name; }
  std::string logs() const { return root_ + "/logs"; }
  std::string log() const { return file_log_in(logs(), 0, kImage); }

  // --- Changes by the rank, with their log entries in the order in which a rank writes them

  void remove(const std::string& name) {
    const std::string kept = keep(name);
    note(FileChange::kRemoved, at(name), "", kept, file_at(at(name)));
    ASSERT_EQ(unlink(at(name).c_str()), 0);
  }
  void make(const std::string& name, const std::string& text) {
    note(FileChange::kMaking, at(name), "", "", 0);
    write(at(name), text);
    note(FileChange::kMade, at(name), "", "", file_at(at(name)));
  }
  void make_directory(const std::string& name) {
    note(FileChange::kMaking, at(name), "", "", 0);
    ASSERT_EQ(mkdir(at(name).c_str(), 0755), 0);
    note(FileChange::kMade, at(name), "", "", file_at(at(name)));
  }
  void remove_directory(const std::string& name) {
    struct stat s;
    ASSERT_EQ(stat(at(name).c_str(), &s), 0);
    note(FileChange::kRemovedDirectory, at(name), "", "", file_at(at(name)), 0, s.st_mode & 07777);
    ASSERT_EQ(rmdir(at(name).c_str()), 0);
  }
  void rename(const std::string& from, const std::string& to) {
    const std::uint32_t there = file_at(at(to));
    const std::string kept = there != 0 ? keep(to) : "";
    note(FileChange::kRenamed, at(from), at(to), kept, file_at(at(from)), there);
    ASSERT_EQ(::rename(at(from).c_str(), at(to).c_str()), 0);
  }
  void exchange(const std::string& one, const std::string& other) {
    note(FileChange::kExchanged, at(one), at(other), "", file_at(at(one)), file_at(at(other)));
    ASSERT_EQ(renameat2(AT_FDCWD, at(one).c_str(), AT_FDCWD, at(other).c_str(), RENAME_EXCHANGE),
              0);
  }

  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ + "/tree")) {
      std::ostringstream text;
      if (entry.is_regular_file()) text << std::ifstream(entry.path()).rdbuf();
      found[entry.path().lexically_relative(root_)] = text.str();
    }
    return found;
  }

  Result<FileChanges> read() const {
    ImageSet set;
    set.images = {{kImage, "program"}};
    set.file_logs = {checksum_of_file_log(log(), sizeof(wire::FileLogHead))};
    return FileChanges::read(set, logs(), {kAtTheCut});
  }

 private:
  std::string keep(const std::string& name) {
    const std::string kept = logs() + "/kept-0-3-" + std::to_string(++kept_);
    EXPECT_EQ(link(at(name).c_str(), kept.c_str()), 0);
    return kept;
  }
  void note(FileChange change, const std::string& path, const std::string& other,
            const std::string& kept, std::uint32_t file, std::uint32_t other_file = 0,
            std::uint32_t flags = 0) {
    wire::FileEntryHead head = {};
    head.change = change;
    head.order = ++order_;
    head.position = kAtTheCut + order_;
    head.time_ns = order_;
    head.file = file;
    head.other_file = other_file;
    head.flags = flags;
    std::string bytes(sizeof head + wire::kMostFileEntryText, '\0');
    bytes.resize(
        wire::put_file_entry(head, path.c_str(), other.c_str(), kept.c_str(), bytes.data()));
    std::ofstream(log(), std::ios::app) << bytes;
  }

  std::string root_;
  std::uint64_t order_ = 0;
  int kept_ = 0;
};

// The same names are reused, so the file at a name does not identify the step.
void work(Work& w) {
  w.remove("a");
  w.make("a", "second a");
  w.rename("a", "b");
  w.rename("c", "a");
  w.make("c", "second c");
  w.exchange("a", "c");
  w.remove_directory("empty");
  w.make_directory("empty");
  w.make("empty/in", "new");
  w.make_directory("tree");
  w.rename("b", "tree/b");
  w.remove("tree/b");
  w.make("b", "third b");
  w.remove("empty/in");
}

TEST(FileChanges, AreUndoneHoweverOftenThatIsInterrupted) {
  std::size_t changes = 1;
  for (std::size_t first = 0; first <= 2 * changes; ++first) {
    for (const std::size_t second : {0, 1, 6, 13}) {
      Work w;
      const auto before = w.contents();
      work(w);
      if (testing::Test::HasFatalFailure()) return;
      ASSERT_NE(w.contents(), before);
      std::vector<std::string> notices;
      for (const std::size_t most : {first, second, ~std::size_t{0}}) {
        const auto found = w.read();
        ASSERT_TRUE(found.ok()) << found.error().text;
        changes = std::max(changes, found.value().size());
        const auto error = found.value().undo(notices, most);
        ASSERT_FALSE(error) << error->text << ", interrupted behind " << first << " and " << second;
      }
      ASSERT_EQ(w.contents(), before) << "interrupted behind " << first << " and " << second;
      EXPECT_TRUE(notices.empty()) << notices[0];
    }
  }
  EXPECT_GT(changes, 14u);
}

TEST(FileChanges, ThatCannotBeUndoneChangeNothing) {
  Work w;
  work(w);
  for (const auto& entry : std::filesystem::directory_iterator(w.logs())) {
    if (entry.path().filename().string().starts_with("kept-"))
      std::filesystem::remove(entry.path());
  }
  const auto before = w.contents();
  const auto found = w.read();
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().text.find("Nothing was changed"), std::string::npos)
      << found.error().text;
  EXPECT_EQ(w.contents(), before);
}

}  // namespace
}  // namespace rejoin::launcher
