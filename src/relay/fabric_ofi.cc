// Connections between relays through libfabric. Built as librejoin_fabric.so.
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "relay/fabric.h"
#include "relay/fabric_providers.h"
#include "relay/frames.h"
#include "wire/random.h"

namespace rejoin::relay {
namespace {

// Maximum size of a message, and the number of messages that a sender may have outstanding before
// the receiver returns credits.
constexpr std::size_t kBufferBytes = 32 * 1024;
constexpr std::uint32_t kCredits = 28;
constexpr std::uint32_t kBuffers = 32;  // posted receives; the surplus is for credit messages
static_assert((kBuffers & (kBuffers - 1)) == 0, "sequence numbers overflow");
// Smaller payload is copied into a message, so that it does not wait for the receiver to read it.
constexpr std::size_t kLeastPulled = 16 * 1024;
// Granularity of memory registration. Registering can pin pages, so only chunks in use are
// registered, not the whole segment, which is sparse.
constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20;
static_assert(kMostBytes >= kChunkBytes);

// Exchanged once over the TCP connection: the provider and the endpoint's address.
struct Hello {
  char protocol[8];
  char provider[64];
  std::uint32_t address_format;
  std::uint32_t address_bytes;
  std::uint32_t buffer_bytes;
  std::uint32_t credits;
  std::uint8_t address[256];
};
constexpr char kProtocol[8] = {'R', 'E', 'J', 'O', 'I', 'N', 'F', '1'};

struct MessageHead {
  std::uint64_t secret;    // of the connection
  std::uint32_t bytes;     // of what follows
  std::uint32_t sequence;  // of all messages of this direction
  std::uint32_t returned;  // of those with bytes: how many the other side has read, all in all
  std::uint32_t reserved;
};
struct PartHead {
  std::uint32_t bytes;
  std::uint32_t is_pulled;  // 0: the bytes follow; 1: a Pull does
};
struct Pull {
  std::uint64_t at;  // in the segment
  std::uint64_t address;
  std::uint64_t key;
};

struct Close {
  template <class Fid>
  void operator()(Fid* f) const {
    fi_close(&f->fid);
  }
};
template <class Fid>
using Owner = std::unique_ptr<Fid, Close>;

std::uint64_t monotonic_ns() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

class OfiConnection final : public FabricConnection {
 public:
  explicit OfiConnection(const FabricPlan& plan) : plan_(plan) {}
  ~OfiConnection() override;

  // Returns the reason of a failure.
  std::string open();
  long send(const iovec* pieces, std::size_t count, bool more) override;
  long receive(std::byte* to, std::size_t bytes) override;
  int wait_for(std::vector<pollfd>& all) override;
  const std::string& why() const override { return why_; }

 private:
  struct Operation {
    fi_context2 context;  // libfabric's; first
    enum class Kind : std::uint8_t { kSend, kReceive, kRead } kind;
    std::uint32_t index;  // of the buffer
  };
  // Part of a message that has come.
  struct Part {
    Operation read;
    std::uint32_t buffer;
    std::uint32_t bytes;
    std::size_t begin;  // in the buffer
    Pull pull;
    std::uint32_t taken;  // bytes
    bool is_pulled;       // it is to be read
    bool is_there;
    bool is_last;  // of its message
  };

  std::byte* buffer(std::uint32_t i) const { return buffers_.get() + i * kBufferBytes; }
  std::byte* send_buffer(std::uint32_t i) const { return buffer(kBuffers + i); }
  void* descriptor_of_buffers() const {
    return buffers_mr_ ? fi_mr_desc(buffers_mr_.get()) : nullptr;
  }
  Owner<fid_mr> make_registered(void* at, std::size_t bytes, std::uint64_t access);
  fid_mr* registered(std::uint64_t at);

  long progress();
  long hear();
  bool is_gone();
  long complete();
  long arrived(std::uint32_t index, std::size_t bytes);
  long parse(std::uint32_t index);
  long start_reads();
  bool post(std::uint32_t index);
  bool send_message(std::uint32_t index);
  std::size_t fill(std::uint32_t index, const iovec* pieces, std::size_t count, std::size_t skip);
  bool is_payload(const std::byte* at) const {
    return at >= plan_.base && at < plan_.base + plan_.bytes;
  }
  // Marks the connection as failed. Later errors are consequences of the first one, and are
  // dropped.
  long fail(long error, const char* why = nullptr) {
    if (failed_ != 0 || error == 0) return failed_;
    if (why != nullptr) {
      why_ = why;
    } else if (error != -ECONNRESET) {
      why_ = fi_strerror(static_cast<int>(-error));
    }
    return failed_ = error;
  }
  bool is_stuck();
  void return_buffers();

  FabricPlan plan_;
  Info info_;
  // Declared in order of creation. Members are destroyed in reverse order, so the endpoint is
  // closed before the objects that it refers to.
  Owner<fid_fabric> fabric_;
  Owner<fid_domain> domain_;
  Owner<fid_cq> queue_;
  Owner<fid_av> addresses_;
  std::unique_ptr<std::byte[]> buffers_ =
      std::make_unique<std::byte[]>((kBuffers + kCredits) * kBufferBytes);
  std::deque<Part> parts_;
  std::vector<Operation> operations_ = std::vector<Operation>(kBuffers + kCredits);
  Owner<fid_mr> buffers_mr_;
  std::unordered_map<std::uint64_t, Owner<fid_mr>> chunks_;
  Owner<fid_ep> endpoint_;

  int wait_fd_ = -1;
  long failed_ = 0;
  std::string why_;
  Hello hello_ = {};       // what has come of the other side's
  std::size_t heard_ = 0;  // bytes of it
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  unsigned looks_ = 0;

  std::vector<std::uint32_t> free_;    // buffers for sending
  std::deque<std::uint32_t> filled_;   // that wait to be sent
  std::deque<std::uint32_t> emptied_;  // buffers that wait to be given to libfabric
  std::deque<Part*> to_read_;
  // Messages that have come before others that were sent before them: their buffers.
  std::array<std::optional<std::uint32_t>, kBuffers> early_;
  std::uint32_t next_ = 0;            // sequence number of the next one that is to come
  std::uint32_t sequence_ = 0;        // of the next one that is sent
  std::uint32_t sent_ = 0;            // messages with bytes
  std::uint32_t returned_ = 0;        // of them, as the other side has said
  std::uint32_t consumed_ = 0;        // messages with bytes that have come
  std::uint32_t told_ = 0;            // of them, as the other side was told
  std::uint64_t returned_at_ns_ = 0;  // by a message for that alone
  std::uint32_t reads_ = 0;           // that libfabric carries out
  bool has_heard_ = true;             // since the last is_stuck()
  std::uint64_t heard_at_ns_ = 0;
};

OfiConnection::~OfiConnection() {
  if (!info_ || (info_->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0) return;
  chunks_.clear();  // they belong to the endpoint
  buffers_mr_.reset();
}

std::string text_of(const char* what, long error) {
  return std::string(what) + ": " + fi_strerror(static_cast<int>(-error));
}

std::string OfiConnection::open() {
  const std::optional<std::string> source = address_of(plan_.socket);
  info_ = find_info(source);
  if (!info_) return "libfabric has no provider for " + source.value_or("it");
  const auto made = [](auto& owner, auto* pointer, int error) {
    owner.reset(error == 0 ? pointer : nullptr);
    return error;
  };
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* queue = nullptr;
  fid_av* addresses = nullptr;
  fid_ep* endpoint = nullptr;
  int error = fi_fabric(info_->fabric_attr, &fabric, nullptr);
  if (made(fabric_, fabric, error) != 0) return text_of("fi_fabric", error);
  error = fi_domain(fabric, info_.get(), &domain, nullptr);
  if (made(domain_, domain, error) != 0) return text_of("fi_domain", error);
  fi_cq_attr cq = {};
  cq.size = 4 * (kBuffers + kCredits) + info_->tx_attr->size;
  cq.format = FI_CQ_FORMAT_MSG;
  cq.wait_obj = FI_WAIT_FD;
  error = fi_cq_open(domain, &cq, &queue, nullptr);
  if (error == 0 && fi_control(&queue->fid, FI_GETWAIT, &wait_fd_) != 0) wait_fd_ = -1;
  if (error != 0) {  // the provider cannot wait
    cq.wait_obj = FI_WAIT_NONE;
    error = fi_cq_open(domain, &cq, &queue, nullptr);
  }
  if (made(queue_, queue, error) != 0) return text_of("fi_cq_open", error);
  fi_av_attr av = {};
  av.type = info_->domain_attr->av_type;
  av.count = 1;
  error = fi_av_open(domain, &av, &addresses, nullptr);
  if (made(addresses_, addresses, error) != 0) return text_of("fi_av_open", error);
  error = fi_endpoint(domain, info_.get(), &endpoint, nullptr);
  if (made(endpoint_, endpoint, error) != 0) return text_of("fi_endpoint", error);
  error = fi_ep_bind(endpoint, &addresses->fid, 0);
  if (error == 0) error = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV);
  if (error == 0) error = fi_enable(endpoint);
  if (error != 0) return text_of("fi_enable", error);
  if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
    buffers_mr_ =
        make_registered(buffers_.get(), (kBuffers + kCredits) * kBufferBytes, FI_SEND | FI_RECV);
    if (!buffers_mr_) return text_of("fi_mr_reg", -errno);
  }
  for (std::uint32_t i = 0; i < kBuffers + kCredits; ++i) {
    const bool receives = i < kBuffers;
    operations_[i].kind = receives ? Operation::Kind::kReceive : Operation::Kind::kSend;
    operations_[i].index = receives ? i : i - kBuffers;
    if (receives) {
      emptied_.push_back(i);
    } else {
      free_.push_back(i - kBuffers);
    }
  }
  Hello mine = {};
  memcpy(mine.protocol, kProtocol, sizeof kProtocol);
  snprintf(mine.provider, sizeof mine.provider, "%s", info_->fabric_attr->prov_name);
  mine.address_format = info_->addr_format;
  std::size_t bytes = sizeof mine.address;
  error = fi_getname(&endpoint->fid, mine.address, &bytes);
  if (error != 0) return text_of("fi_getname", error);
  mine.address_bytes = static_cast<std::uint32_t>(bytes);
  mine.buffer_bytes = kBufferBytes;
  mine.credits = kCredits;
  // It fits into the buffers of a new connection.
  if (::send(plan_.socket, &mine, sizeof mine, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof mine) {
    return strerror(errno);
  }
  return {};
}

Owner<fid_mr> OfiConnection::make_registered(void* at, std::size_t bytes, std::uint64_t access) {
  const std::uint64_t mode = info_->domain_attr->mr_mode;
  const std::size_t key_bytes = std::min(info_->domain_attr->mr_key_size, sizeof(std::uint64_t));
  constexpr int kTries = 8;  // keys of our own are random, and may be in use
  for (int i = 0; i < kTries; ++i) {
    std::uint64_t key = 0;
    if ((mode & FI_MR_PROV_KEY) == 0 && !wire::fill_random(&key, key_bytes)) return nullptr;
    fid_mr* made = nullptr;
    int error = fi_mr_reg(domain_.get(), at, bytes, access, 0, key, 0, &made, nullptr);
    Owner<fid_mr> owner(error == 0 ? made : nullptr);
    if (error == 0 && (mode & FI_MR_ENDPOINT) != 0) {
      error = fi_mr_bind(made, &endpoint_->fid, 0);
      if (error == 0) error = fi_mr_enable(made);
    }
    if (error == 0) return owner;
    errno = -error;
    if (error != -FI_ENOKEY) break;
  }
  return nullptr;
}

// The registration of the chunk in which `at` lies. Null: the system does not allow it, and the
// connection ends.
fid_mr* OfiConnection::registered(std::uint64_t at) {
  const std::uint64_t chunk = at / kChunkBytes;
  const auto found = chunks_.find(chunk);
  if (found != chunks_.end()) return found->second.get();
  const std::uint64_t begin = chunk * kChunkBytes;
  const std::uint64_t bytes = std::min(kChunkBytes, plan_.bytes - begin);
  Owner<fid_mr> made = make_registered(plan_.base + begin, bytes, FI_READ | FI_REMOTE_READ);
  if (!made) {
    fail(-errno,
         "memory cannot be registered with the network; is the limit of locked memory "
         "(ulimit -l) too low, or /dev/shm full?");
    return nullptr;
  }
  return chunks_.emplace(chunk, std::move(made)).first->second.get();
}

// --- Progress and completions

// Returns 0, or a negative error: the connection has ended.
long OfiConnection::progress() {
  constexpr unsigned kLooksPerLookAtSocket = 64;
  if (failed_ != 0) return failed_;
  if (peer_ == FI_ADDR_UNSPEC) {
    if (const long error = hear(); error != 0 || peer_ == FI_ADDR_UNSPEC) return fail(error);
  } else if (++looks_ % kLooksPerLookAtSocket == 0) {
    if (is_gone()) return fail(-ECONNRESET);
    if (is_stuck()) return fail(-ETIMEDOUT, "nothing arrives any more");
    constexpr std::uint64_t kReturnNs = 1'000'000'000;  // else the other side takes it for stuck
    if (consumed_ != told_ && monotonic_ns() - returned_at_ns_ > kReturnNs) return_buffers();
  }
  while (!emptied_.empty() && post(emptied_.front())) emptied_.pop_front();
  if (const long error = complete(); error != 0) return fail(error);
  if (const long error = start_reads(); error != 0) return fail(error);
  while (!filled_.empty() && send_message(filled_.front())) filled_.pop_front();
  if (consumed_ - told_ >= kCredits / 2) return_buffers();
  return failed_;
}

// Returns credits in a message without payload.
void OfiConnection::return_buffers() {
  if (!filled_.empty() || free_.empty()) return;
  returned_at_ns_ = monotonic_ns();
  const std::uint32_t index = free_.back();
  free_.pop_back();
  fill(index, nullptr, 0, 0);
  if (!send_message(index)) filled_.push_back(index);
}

// Timeout: the peer owes credits, a read or a missing message, and nothing has arrived for 20 s.
// The TCP connection can be alive while the provider's connection is not.
bool OfiConnection::is_stuck() {
  constexpr std::uint64_t kLongNs = 20'000'000'000;
  const bool is_early = std::any_of(early_.begin(), early_.end(), [](auto& e) { return bool(e); });
  const bool waits = sent_ != returned_ || !filled_.empty() || reads_ > 0 || is_early;
  if (!waits || std::exchange(has_heard_, false)) {
    heard_at_ns_ = monotonic_ns();
    return false;
  }
  return monotonic_ns() - heard_at_ns_ > kLongNs;
}

// Receives the peer's Hello, and resolves its address.
long OfiConnection::hear() {
  const ssize_t n = recv(plan_.socket, reinterpret_cast<char*>(&hello_) + heard_,
                         sizeof hello_ - heard_, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) return -ECONNRESET;
  heard_ += static_cast<std::size_t>(n);
  if (heard_ < sizeof hello_) return 0;
  hello_.provider[sizeof hello_.provider - 1] = 0;
  const bool is_known = memcmp(hello_.protocol, kProtocol, sizeof kProtocol) == 0 &&
                        hello_.buffer_bytes == kBufferBytes && hello_.credits == kCredits &&
                        hello_.address_bytes <= sizeof hello_.address;
  if (!is_known || strcmp(hello_.provider, info_->fabric_attr->prov_name) != 0 ||
      hello_.address_format != info_->addr_format) {
    const std::string text = std::string("this host has the provider ") +
                             info_->fabric_attr->prov_name + " of libfabric, the other one " +
                             hello_.provider + "; choose one for both with FI_PROVIDER";
    return fail(-EPROTO, is_known ? text.c_str() : "the other host has another build");
  }
  return fi_av_insert(addresses_.get(), hello_.address, 1, &peer_, 0, nullptr) == 1 ? 0 : -EPROTO;
}

// The peer sends nothing after its Hello, so a readable socket means that the connection has ended.
bool OfiConnection::is_gone() {
  char byte = 0;
  const ssize_t n = recv(plan_.socket, &byte, 1, MSG_DONTWAIT);
  return n >= 0 || (errno != EAGAIN && errno != EINTR);
}

// Posts a receive buffer.
bool OfiConnection::post(std::uint32_t index) {
  const ssize_t error = fi_recv(endpoint_.get(), buffer(index), kBufferBytes,
                                descriptor_of_buffers(), FI_ADDR_UNSPEC, &operations_[index]);
  if (error != 0 && error != -FI_EAGAIN) fail(error);
  return error == 0;
}

long OfiConnection::complete() {
  constexpr std::size_t kAtOnce = 16;
  fi_cq_msg_entry all[kAtOnce];
  for (;;) {
    const ssize_t n = fi_cq_read(queue_.get(), all, kAtOnce);
    if (n == -FI_EAGAIN) return 0;
    if (n == -FI_EAVAIL) {
      fi_cq_err_entry error = {};
      fi_cq_readerr(queue_.get(), &error, 0);
      auto* failed = static_cast<Operation*>(error.op_context);
      if (error.err == FI_ETRUNC && failed != nullptr &&
          failed->kind == Operation::Kind::kReceive) {
        emptied_.push_back(failed->index);  // larger than what relays send: of a stranger
        continue;
      }
      return error.err != 0 ? -error.err : -EIO;
    }
    if (n < 0) return n;
    for (ssize_t i = 0; i < n; ++i) {
      auto* done = static_cast<Operation*>(all[i].op_context);
      long error = 0;
      if (done->kind == Operation::Kind::kSend) {
        free_.push_back(done->index);
      } else if (done->kind == Operation::Kind::kRead) {
        reinterpret_cast<Part*>(done)->is_there = true;
        has_heard_ = true;
        --reads_;
      } else {
        error = arrived(done->index, all[i].len);
      }
      if (error != 0) return error;
    }
  }
}

// Restores the order of messages: receives may complete out of order. Messages without the
// connection's secret are dropped, because any process can reach the endpoint.
long OfiConnection::arrived(std::uint32_t index, std::size_t bytes) {
  MessageHead head;
  if (bytes >= sizeof head) memcpy(&head, buffer(index), sizeof head);
  if (bytes < sizeof head || head.secret != plan_.theirs) {
    emptied_.push_back(index);
    return 0;
  }
  has_heard_ = true;
  const std::uint32_t ahead = head.sequence - next_;
  if (head.bytes != bytes - sizeof head || ahead >= kBuffers) return -EPROTO;
  early_[head.sequence % kBuffers] = index;
  for (; early_[next_ % kBuffers]; ++next_) {
    const std::uint32_t first = *std::exchange(early_[next_ % kBuffers], std::nullopt);
    if (const long error = parse(first); error != 0) return error;
  }
  return 0;
}

// Queues the parts of a message, and starts no reads yet.
long OfiConnection::parse(std::uint32_t index) {
  MessageHead head;
  memcpy(&head, buffer(index), sizeof head);
  if (head.returned - returned_ > sent_ - returned_) return -EPROTO;
  returned_ = head.returned;
  if (head.bytes == 0) {
    emptied_.push_back(index);
    return 0;
  }
  const std::size_t end = sizeof head + head.bytes;
  for (std::size_t at = sizeof head; at < end;) {
    PartHead part;
    if (end - at < sizeof part) return -EPROTO;
    memcpy(&part, buffer(index) + at, sizeof part);
    at += sizeof part;
    const std::size_t bytes = part.is_pulled != 0 ? sizeof(Pull) : part.bytes;
    if (part.bytes == 0 || part.is_pulled > 1 || end - at < bytes) return -EPROTO;
    Part& made = parts_.emplace_back();
    made.buffer = index;
    made.bytes = part.bytes;
    made.begin = at;
    made.is_there = part.is_pulled == 0;
    made.is_pulled = part.is_pulled != 0;
    if (made.is_pulled) {
      memcpy(&made.pull, buffer(index) + at, sizeof made.pull);
      made.read.kind = Operation::Kind::kRead;
      to_read_.push_back(&made);
    }
    at += bytes;
    made.is_last = at == end;
  }
  return 0;
}

// Payload is read as soon as it is announced, before what was sent in front of it is shown: nothing
// names it yet, and its place has no other bytes that a reader needs, or that are on their way.
long OfiConnection::start_reads() {
  while (!to_read_.empty()) {
    Part& part = *to_read_.front();
    const Pull& pull = part.pull;
    std::byte* const to = plan_.place(pull.at, part.bytes);
    if (to != plan_.base + pull.at) return -EPROTO;
    if ((pull.at + part.bytes - 1) / kChunkBytes != pull.at / kChunkBytes) return -EPROTO;
    void* descriptor = nullptr;
    if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
      fid_mr* const mr = registered(pull.at);
      if (mr == nullptr) return failed_;
      descriptor = fi_mr_desc(mr);
    }
    const ssize_t error = fi_read(endpoint_.get(), to, part.bytes, descriptor, peer_, pull.address,
                                  pull.key, &part.read);
    if (error == -FI_EAGAIN) return 0;
    if (error != 0) return error;
    to_read_.pop_front();
    ++reads_;
  }
  return 0;
}

// --- Sending

// Encodes the next message: as much of the pieces, from byte `skip` on, as fits into a buffer.
// Returns the number of bytes of the pieces that it covers.
std::size_t OfiConnection::fill(std::uint32_t index, const iovec* pieces, std::size_t count,
                                std::size_t skip) {
  std::byte* const begin = send_buffer(index);
  std::size_t at = sizeof(MessageHead), taken = 0;
  const auto add = [&](const void* data, std::size_t bytes) {
    memcpy(begin + at, data, bytes);
    at += bytes;
  };
  for (std::size_t i = 0; i < count;) {
    if (skip >= pieces[i].iov_len) {
      skip -= pieces[i++].iov_len;
      continue;
    }
    const std::byte* from = static_cast<const std::byte*>(pieces[i].iov_base) + skip;
    const std::size_t left = pieces[i].iov_len - skip;
    const std::size_t room = kBufferBytes - at;
    std::size_t n = 0;
    fid_mr* mr = nullptr;
    const std::uint64_t offset =
        is_payload(from) ? static_cast<std::uint64_t>(from - plan_.base) : 0;
    if (offset != 0 && left >= kLeastPulled) mr = registered(offset);
    if (mr != nullptr) {
      if (room < sizeof(PartHead) + sizeof(Pull)) break;
      n = std::min(left, kChunkBytes - offset % kChunkBytes);
      const bool by_address = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
      const PartHead part = {static_cast<std::uint32_t>(n), 1};
      const Pull pull = {offset,
                         by_address ? reinterpret_cast<std::uint64_t>(from) : offset % kChunkBytes,
                         fi_mr_key(mr)};
      add(&part, sizeof part);
      add(&pull, sizeof pull);
    } else {
      if (room <= sizeof(PartHead)) break;
      n = std::min(left, room - sizeof(PartHead));
      const PartHead part = {static_cast<std::uint32_t>(n), 0};
      add(&part, sizeof part);
      add(from, n);
    }
    taken += n;
    skip += n;
  }
  const MessageHead head = {plan_.mine, static_cast<std::uint32_t>(at - sizeof head), sequence_++,
                            0, 0};
  memcpy(begin, &head, sizeof head);
  return taken;
}

// Returns false if the provider's transmit queue is full.
bool OfiConnection::send_message(std::uint32_t index) {
  std::byte* const begin = send_buffer(index);
  MessageHead head;
  memcpy(&head, begin, sizeof head);
  head.returned = consumed_;
  memcpy(begin, &head, sizeof head);
  const std::size_t bytes = sizeof head + head.bytes;
  const bool injects = bytes <= info_->tx_attr->inject_size;
  const ssize_t error = injects ? fi_inject(endpoint_.get(), begin, bytes, peer_)
                                : fi_send(endpoint_.get(), begin, bytes, descriptor_of_buffers(),
                                          peer_, &operations_[kBuffers + index]);
  if (error == -FI_EAGAIN) return false;
  if (error != 0) fail(error);
  told_ = head.returned;
  if (injects) free_.push_back(index);
  return true;
}

long OfiConnection::send(const iovec* pieces, std::size_t count, bool /*more*/) {
  if (const long error = progress(); error != 0) return error;
  if (peer_ == FI_ADDR_UNSPEC) return 0;
  std::size_t all = 0, taken = 0;
  for (std::size_t i = 0; i < count; ++i) all += pieces[i].iov_len;
  while (taken < all && filled_.empty() && !free_.empty() && sent_ - returned_ < kCredits) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    taken += fill(index, pieces, count, taken);
    ++sent_;
    if (!send_message(index)) filled_.push_back(index);
    if (failed_ != 0) return failed_;
  }
  return static_cast<long>(taken);
}

// --- Receiving

long OfiConnection::receive(std::byte* to, std::size_t bytes) {
  if (const long error = progress(); error != 0) return error;
  std::size_t done = 0;
  while (done < bytes && !parts_.empty() && parts_.front().is_there) {
    Part& part = parts_.front();
    const std::size_t n = std::min<std::size_t>(bytes - done, part.bytes - part.taken);
    if (part.is_pulled) {
      // fi_read has already stored these bytes at their final place, which must be the caller's.
      const bool is_its_place = to + done == plan_.base + part.pull.at + part.taken;
      if (!is_its_place && done > 0) break;
      if (!is_its_place) return fail(-EPROTO);
    } else {
      memcpy(to + done, buffer(part.buffer) + part.begin + part.taken, n);
    }
    done += n;
    part.taken += static_cast<std::uint32_t>(n);
    if (part.taken < part.bytes) break;
    if (part.is_last) {
      ++consumed_;
      emptied_.push_back(part.buffer);
    }
    parts_.pop_front();
  }
  return static_cast<long>(done);
}

int OfiConnection::wait_for(std::vector<pollfd>& all) {
  constexpr int kLongMs = 1'000;
  all.push_back({plan_.socket, POLLIN, 0});
  looks_ = 0 - 1u;  // it may be the socket that wakes the process: look at it then
  if (failed_ != 0 || (!parts_.empty() && parts_.front().is_there)) return 0;
  if (peer_ == FI_ADDR_UNSPEC) return kLongMs;
  if (wait_fd_ < 0) return 1;
  fid* waits[] = {&queue_->fid};
  if (fi_trywait(fabric_.get(), waits, 1) != FI_SUCCESS) return 0;
  all.push_back({wait_fd_, POLLIN, 0});
  return filled_.empty() && to_read_.empty() && emptied_.empty() ? kLongMs : 1;
}

class OfiFabric final : public Fabric {
 public:
  std::string provider(std::string* why) override {
    if (const Info found = find_any_info()) return found->fabric_attr->prov_name;
    const char* chosen = getenv("FI_PROVIDER");
    *why = chosen != nullptr ? "FI_PROVIDER=" + std::string(chosen) + " is none that can be used"
                             : "no provider of libfabric can be used";
    return {};
  }
  std::unique_ptr<FabricConnection> connect(const FabricPlan& plan, std::string* why) override {
    auto made = std::make_unique<OfiConnection>(plan);
    *why = made->open();
    if (!why->empty()) return nullptr;
    return made;
  }
};

}  // namespace
}  // namespace rejoin::relay

extern "C" rejoin::relay::Fabric* rejoin_fabric() {
  static auto* const fabric = new rejoin::relay::OfiFabric();
  return fabric;
}
