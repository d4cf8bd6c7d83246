#include "launcher/agent/part_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/base/process.h"

namespace rejoin::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kPut = 1, kGet = 2;
constexpr std::uint32_t kMostNameBytes = 64;
constexpr char kYes = 'y', kNo = 'n';

struct Request {
  std::uint32_t what;
  std::uint32_t host;
  std::uint64_t set;
};
struct FileHead {
  std::uint64_t bytes;
  std::uint32_t name_bytes;
  std::uint32_t reserved;
};

bool send_file(PartConnection& to, const std::string& path, std::string_view name,
               std::uint64_t* all) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!file.open() || fstat(file.get(), &info) != 0) return false;
  const FileHead head = {static_cast<std::uint64_t>(info.st_size),
                         static_cast<std::uint32_t>(name.size()), 0};
  if (!to.send(&head, sizeof head) || !to.send(name.data(), name.size()) ||
      !to.send_file(file.get(), head.bytes)) {
    return false;
  }
  *all += head.bytes;
  return true;
}

bool send_files(PartConnection& to, const std::string& directory, std::uint64_t* bytes) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!send_file(to, entry.path(), entry.path().filename().string(), bytes)) return false;
  }
  if (error) return false;
  const FileHead end = {};
  return to.send(&end, sizeof end);
}

// A name that a part has, and nothing that leads elsewhere.
bool is_name(std::string_view name) {
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

bool receive_file(PartConnection& from, const FileHead& head, const std::string& directory) {
  constexpr std::size_t kPieceBytes = 1 << 18;
  if (head.name_bytes > kMostNameBytes) return false;
  std::string name(head.name_bytes, '\0');
  if (!from.receive(name.data(), name.size()) || !is_name(name)) return false;
  const Descriptor file(
      open((directory + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.open()) return false;
  std::vector<char> piece(kPieceBytes);
  for (std::uint64_t left = head.bytes; left > 0;) {
    const std::size_t n = std::min<std::uint64_t>(left, piece.size());
    if (!from.receive(piece.data(), n)) return false;
    for (std::size_t written = 0; written < n;) {
      const ssize_t w = write(file.get(), piece.data() + written, n - written);
      if (w < 0 && errno == EINTR) continue;
      if (w <= 0) return false;
      written += static_cast<std::size_t>(w);
    }
    left -= n;
  }
  return true;
}

// Into a new directory, which appears when the part is whole.
bool receive_files(PartConnection& from, const std::string& directory) {
  std::error_code error;
  const std::string part = directory + ".part";
  fs::remove_all(part, error);
  if (!fs::create_directories(part, error)) return false;
  for (;;) {
    FileHead head = {};
    if (!from.receive(&head, sizeof head)) break;
    if (head.name_bytes == 0) {
      fs::remove_all(directory, error);
      fs::rename(part, directory, error);
      return !error;
    }
    if (!receive_file(from, head, part)) break;
  }
  const int why = errno;
  fs::remove_all(part, error);
  errno = why;
  return false;
}

std::string send_part(PartConnection& to, std::uint32_t host, std::uint64_t set,
                      const std::string& path, std::uint64_t* bytes) {
  const Request request = {kPut, host, set};
  char answer = kNo;
  if (!to.send(&request, sizeof request) || !send_files(to, path, bytes) ||
      !to.receive(&answer, sizeof answer)) {
    return error_text(errno);
  }
  return answer == kYes ? "" : "it could not be stored there";
}

}  // namespace

PartStore::PartStore(Identity identity, std::string directory)
    : identity_(std::move(identity)),
      directory_(std::move(directory)),
      done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PartStore::~PartStore() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    for (const Served& served : served_) shutdown(served.fd.get(), SHUT_RDWR);
    wake_.notify_one();
  }
  give_up();
  if (listener_.open()) shutdown(listener_.get(), SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  for (Served& served : served_) served.thread.join();
  if (sender_.joinable()) sender_.join();
  if (remover_.joinable()) remover_.join();
  std::error_code error;
  fs::remove_all(directory_, error);
}

std::optional<Error> PartStore::listen(bool for_others) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) return Error{"cannot make " + directory_ + ": " + error.message()};
  chmod(directory_.c_str(), 0700);
  listener_ = Descriptor(relay::listen_at_any_port(for_others, &port_));
  if (!listener_.open()) return Error{"no port to listen at: " + error_text(errno)};
  acceptor_ = std::thread([this] { accept_all(); });
  remover_ = std::thread([this] { remove_all(); });
  return {};
}

void PartStore::accept_all() {
  constexpr timespec kPause = {0, 20'000'000};
  for (;;) {
    Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::lock_guard lock(mutex_);
    if (is_closing_) return;
    std::erase_if(served_, [](Served& served) {
      if (served.is_over) served.thread.join();
      return served.is_over;
    });
    if (fd.open()) {
      begin_serving(std::move(fd));
    } else {
      nanosleep(&kPause, nullptr);  // there is no descriptor left, for example
    }
  }
}

// Each in a thread of its own: a host that has fallen silent must not hold up the others.
void PartStore::begin_serving(Descriptor fd) {
  constexpr std::size_t kMost = 16;
  if (served_.size() == kMost) return;
  Served& served = served_.emplace_back();
  served.fd = std::move(fd);
  try {
    served.thread = std::thread([this, &served] {
      serve(served.fd.get());
      const std::lock_guard lock(mutex_);
      shutdown(served.fd.get(), SHUT_RDWR);
      served.is_over = true;
    });
  } catch (const std::system_error&) {  // the limit of processes; the other side tries again
    served_.pop_back();
  }
}

void PartStore::serve(int fd) {
  PartConnection other = PartConnection::accept(identity_, fd);
  Request request = {};
  if (!other.open() || !other.receive(&request, sizeof request) || request.host != other.host()) {
    return;
  }
  const std::string path = path_of(request.host, request.set);
  if (request.what == kPut) {
    const char answer = receive_files(other, path) ? kYes : kNo;
    other.send(&answer, sizeof answer);
  } else if (request.what == kGet) {
    std::uint64_t bytes = 0;
    const char answer = access(path.c_str(), R_OK) == 0 ? kYes : kNo;
    if (other.send(&answer, sizeof answer) && answer == kYes) send_files(other, path, &bytes);
  }
}

bool PartStore::send(const Holder& partner, std::uint64_t set, const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (sends_) {
      unwanted_.push_back(path);
      wake_.notify_one();
      return false;
    }
    sends_ = true;
    gives_up_ = false;
  }
  if (sender_.joinable()) sender_.join();
  sender_ = std::thread([this, partner, set, path] { send_now(partner, set, path); });
  return true;
}

void PartStore::give_up() {
  const std::lock_guard lock(mutex_);
  gives_up_ = true;
  if (sending_to_ >= 0) shutdown(sending_to_, SHUT_RDWR);
}

void PartStore::send_now(const Holder& partner, std::uint64_t set, const std::string& path) {
  Outcome done = {set, {}, 0};
  PartConnection to = PartConnection::connect(identity_, partner, &done.fault);
  bool sends = to.open();
  if (sends) {
    const std::lock_guard lock(mutex_);
    sends = !gives_up_;
    sending_to_ = to.descriptor();
    done.fault = "it is not needed any more";
  }
  if (sends) done.fault = send_part(to, identity_.host, set, path, &done.bytes);
  std::error_code error;
  fs::remove_all(path, error);
  const std::lock_guard lock(mutex_);
  sending_to_ = -1;
  sends_ = false;
  outcome_ = std::move(done);
  eventfd_write(done_.get(), 1);
}

std::optional<PartStore::Outcome> PartStore::outcome() {
  eventfd_t count = 0;
  eventfd_read(done_.get(), &count);
  const std::lock_guard lock(mutex_);
  return std::exchange(outcome_, {});
}

std::string PartStore::path_of(std::uint32_t host, std::uint64_t set) const {
  return directory_ + "/" + std::to_string(set) + "-of-" + std::to_string(host);
}

void PartStore::forget_before(std::uint64_t set) {
  const std::lock_guard lock(mutex_);
  forgotten_before_ = set;
  wake_.notify_one();
}

void PartStore::remove_all() {
  std::uint64_t before = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock,
               [&] { return forgotten_before_ > before || !unwanted_.empty() || is_closing_; });
    if (is_closing_) return;
    std::vector<std::string> unwanted = std::exchange(unwanted_, {});
    before = forgotten_before_;
    lock.unlock();
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory_, error)) {
      const std::uint64_t of = strtoull(entry.path().filename().c_str(), nullptr, 10);
      if (of < before) unwanted.push_back(entry.path());
    }
    for (const std::string& path : unwanted) fs::remove_all(path, error);
    lock.lock();
  }
}

std::optional<Error> PartStore::fetch(const Identity& identity, const Holder& holder,
                                      std::uint64_t set, const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return Error{"the part of the snapshots that " + holder.address.host +
                 " holds cannot be fetched: " + why};
  };
  // It may be busy, or lack descriptors, for a moment; and a connection may break.
  constexpr int kTries = 50, kTransfers = 3;
  constexpr timespec kPause = {0, 100'000'000};
  std::string why;
  for (int tries = 1, transfers = 0; tries <= kTries && transfers < kTransfers; ++tries) {
    if (tries > 1) nanosleep(&kPause, nullptr);
    PartConnection from = PartConnection::connect(identity, holder, &why);
    if (!from.open()) continue;
    ++transfers;
    const Request request = {kGet, identity.host, set};
    char answer = kNo;
    if (from.send(&request, sizeof request) && from.receive(&answer, sizeof answer)) {
      if (answer != kYes) return failed("it is not there");
      if (receive_files(from, path)) return {};
    }
    why = error_text(errno);
  }
  return failed(why);
}

}  // namespace rejoin::launcher
