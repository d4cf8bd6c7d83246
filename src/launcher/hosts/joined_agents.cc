#include "launcher/hosts/joined_agents.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "launcher/base/record.h"
#include "relay/socket.h"

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kProgressNs = 5'000'000'000;
constexpr std::size_t kMostRefused = 8, kMostTold = 64, kMostAgents = 4096;

// The numeric address of a connection's other end.
std::string address_of(const sockaddr_storage& peer, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&peer), size, text, sizeof text, nullptr, 0,
              NI_NUMERICHOST);
  const std::string address = text;
  constexpr char kMapped[] = "::ffff:";
  return address.starts_with(kMapped) ? address.substr(sizeof kMapped - 1) : address;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

// Listens at one address. Returns -1 on failure, with errno set.
int listen_at(const addrinfo& at) {
  const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  constexpr int kBacklog = 128;
  if (bind(fd, at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

// Opens the port at the first address of the host that works. `host`: empty for all addresses of
// this machine, of both versions of the protocol where it has both.
Result<Descriptor> open_port(const std::string& host, const std::string& port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const char* const name = host.empty() ? nullptr : host.c_str();
  if (const int error = getaddrinfo(name, port.c_str(), &hints, &found); error != 0) {
    return Error{"is no address of this machine: " + std::string(gai_strerror(error)) +
                 "; write :PORT for all of them"};
  }
  Descriptor listener;
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = found; at != nullptr && !listener.open(); at = at->ai_next) {
      if (at->ai_family != family) continue;
      listener = Descriptor(listen_at(*at));
      if (!listener.open() && (error == 0 || errno == EADDRINUSE)) error = errno;
    }
  }
  freeaddrinfo(found);
  if (listener.open()) return listener;
  if (error == EADDRINUSE) {
    return Error{"another process listens at this port; choose another one, or 0 for any"};
  }
  if (error == EADDRNOTAVAIL) {
    return Error{"is no address of this machine; write :PORT for all of them"};
  }
  return Error{error_text(error)};
}

}  // namespace

std::pair<std::string, std::string> host_and_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = text.substr(0, colon), port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return {};  // an IPv6 address without brackets may not have a port at all
  }
  const bool is_number =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  if (!is_number || std::stoul(port) > 65535) return {};
  return {host, port};
}

JoinedAgents::JoinedAgents(Loop& loop, TlsLibrary tls, Settings settings, Calls calls)
    : loop_(loop),
      tls_(tls),
      settings_(std::move(settings)),
      calls_(std::move(calls)),
      proof_timer_(loop, [this] { drop_late_ones(); }),
      progress_timer_(loop, [this] { tell_progress(); }),
      limit_timer_(loop, [this] { time_is_over(); }) {}

std::optional<Error> JoinedAgents::listen() {
  const auto [host, port] = host_and_port(settings_.listen);
  auto listener = open_port(host, port);
  if (!listener.ok()) return Error{"--listen " + settings_.listen + ": " + listener.error().text};
  listener_ = std::move(listener.value());
  port_ = port_of(listener_.get());
  listener_watch_ =
      Loop::Watch(loop_, listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
  return {};
}

void JoinedAgents::wait_for_all(const std::string& secret_file) {
  const std::string host = host_and_port(settings_.listen).first;
  const std::size_t count = settings_.names.size();
  calls_.tell("waiting for " + std::to_string(count) + (count == 1 ? " agent" : " agents") +
              " at port " + std::to_string(port_) + "; on each host: ftrun agent --join " +
              (host.empty() ? "THIS_HOST" : host) + ":" + std::to_string(port_) +
              " --secret-file " + secret_file);
  until_ns_ = loop_.now_ns() + settings_.limit_ns;
  limit_timer_.set(until_ns_);
  progress_timer_.set(loop_.now_ns() + kProgressNs);
}

std::vector<std::string> JoinedAgents::names() const {
  if (is_named()) return settings_.names;
  std::vector<std::string> names;
  for (const Agent& agent : agents_) names.push_back(agent.name);
  return names;
}

JoinedAgents::Agent JoinedAgents::take(const std::string& name) {
  const auto found = std::find_if(agents_.begin(), agents_.end(),
                                  [&](const Agent& agent) { return agent.name == name; });
  if (found == agents_.end()) return {};
  Agent agent = std::move(*found);
  agents_.erase(found);
  taken_[name] = agent.address;
  return agent;
}

std::string JoinedAgents::listens_at() const {
  return settings_.listen.substr(0, settings_.listen.rfind(':') + 1) + std::to_string(port_);
}

void JoinedAgents::close() { is_closed_ = true; }

void JoinedAgents::finish(bool again) {
  Order order;
  order.mutable_finish()->set_again(again);
  for (Agent& agent : agents_) agent.stream->send(order.SerializeAsString());
}

// --- Connections

void JoinedAgents::accept_all() {
  for (;;) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof peer;
    Descriptor socket(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open() && (errno == EMFILE || errno == ENFILE)) {
      // It would be ready for ever.
      listener_watch_.pause();
      proof_timer_.set(loop_.now_ns() + kProofNs);
    }
    if (!socket.open()) return;
    if (visitors_.size() == kMostUnproved) visitors_.erase(visitors_.begin());
    relay::send_at_once(socket.get(), kControlSilence_s);
    const std::uint64_t number = next_number_++;
    auto tls = tls_.open(socket.get(), TlsSide::kAccepts, TlsUse::kOrders, settings_.secret);
    MessageStream::Calls calls = {
        [this, number](std::string_view message) { on_message(number, message); },
        [this, number](const std::string& why) {
          loop_.post([this, number, why] { drop(number, why); });
        }};
    visitors_.push_back({number, address_of(peer, size), loop_.now_ns() + kProofNs,
                         std::make_unique<MessageStream>(loop_, std::move(socket), std::move(tls),
                                                         std::move(calls))});
    if (!proof_timer_.is_set()) proof_timer_.set(visitors_.front().until_ns);
  }
}

std::vector<JoinedAgents::Visitor>::iterator JoinedAgents::find(std::uint64_t number) {
  return std::find_if(visitors_.begin(), visitors_.end(),
                      [&](const Visitor& visitor) { return visitor.number == number; });
}

void JoinedAgents::on_message(std::uint64_t visitor, std::string_view message) {
  Report report;
  const bool is_report = report.ParseFromArray(message.data(), static_cast<int>(message.size())) &&
                         report.what_case() == Report::kJoined;
  loop_.post([this, visitor, is_report, joined = report.joined()] {
    if (is_report) return admit(visitor, joined);
    drop(visitor, "has sent something that is no message of Rejoin");
  });
}

void JoinedAgents::drop(std::uint64_t visitor, const std::string& why) {
  const auto found = find(visitor);
  if (found == visitors_.end()) return;
  tell_once(found->from, why);
  visitors_.erase(found);
}

void JoinedAgents::drop_late_ones() {
  listener_watch_.want(EPOLLIN);
  while (!visitors_.empty() && visitors_.front().until_ns <= loop_.now_ns()) {
    drop(visitors_.front().number, "has said nothing for " + duration_text(kProofNs));
  }
  if (!visitors_.empty()) proof_timer_.set(visitors_.front().until_ns);
}

// One address could fill the terminal.
void JoinedAgents::tell_once(const std::string& from, const std::string& what) {
  if (told_.size() >= kMostTold || !told_.insert(from + " " + what).second) return;
  calls_.tell("a connection from " + from + " was closed: it " + one_line(what) +
              "; agents need the file of --secret-file that ftrun has");
}

// --- Agents

void JoinedAgents::admit(std::uint64_t visitor, const Report::Joined& joined) {
  const auto found = find(visitor);
  if (found == visitors_.end()) return;
  Agent agent = {one_line(joined.name()), one_line(joined.address()), std::move(found->stream)};
  if (agent.address.empty()) agent.address = found->from;
  visitors_.erase(found);
  if (std::string why = objection(agent, joined); !why.empty()) {
    return refuse(std::move(agent), why);
  }
  const std::string name = agent.name;
  agent.stream->hand_to({[](std::string_view) {},  // it has nothing to say yet
                         [this, name](const std::string& how) {
                           loop_.post([this, name, how] { leave(name, how); });
                         }});
  Order order;
  order.mutable_admitted();
  agent.stream->send(order.SerializeAsString());
  agents_.push_back(std::move(agent));
  if (is_complete_) return calls_.joined(name);
  if (agents_.size() < settings_.names.size()) return;
  is_complete_ = true;
  limit_timer_.clear();
  progress_timer_.clear();
  calls_.complete();
}

std::string JoinedAgents::objection(const Agent& agent, const Report::Joined& joined) const {
  if (joined.version() != settings_.version) {
    return "it has Rejoin " + one_line(joined.version()) + ", and ftrun is " + settings_.version +
           "; install the same on every host";
  }
  if (is_closed_ || agents_.size() >= kMostAgents) {
    return "the job has all its hosts already, and needs no other one (with --survive host it may "
           "be a spare)";
  }
  if (agent.name.empty()) return "it has no name; give it one with --name";
  const auto& names = settings_.names;
  if (is_named() && std::find(names.begin(), names.end(), agent.name) == names.end()) {
    return "it is not in ftrun's list of hosts; give it one of those names with --name";
  }
  std::map<std::string, std::string> addresses = taken_;
  for (const Agent& other : agents_) addresses[other.name] = other.address;
  for (const auto& [name, address] : addresses) {
    const bool here = is_loopback(agent.address);
    if (is_loopback(address) == here) continue;
    return "host " + (here ? agent.name : name) + " has joined at " +
           (here ? agent.address : address) +
           ", where others cannot reach it; give its agent another address with --address";
  }
  if (!addresses.contains(agent.name)) return {};
  return "a host of this name has joined already; give each agent another one with --name. If the "
         "first one is gone, ftrun notices that within a minute";
}

void JoinedAgents::refuse(Agent agent, const std::string& why) {
  const std::string line =
      "the agent of host " + agent.name + " (" + agent.address + ") was refused: " + why;
  if (told_.size() < kMostTold && told_.insert(line).second) calls_.tell(line);
  Order order;
  order.set_refused(why);
  agent.stream->hand_to({[](std::string_view) {}, [](const std::string&) {}});
  agent.stream->send(order.SerializeAsString());
  agent.stream->close_output();
  refused_.push_back(std::move(agent.stream));
  if (refused_.size() > kMostRefused) refused_.pop_front();
}

void JoinedAgents::leave(const std::string& name, const std::string& how) {
  const auto found = std::find_if(agents_.begin(), agents_.end(),
                                  [&](const Agent& agent) { return agent.name == name; });
  if (found == agents_.end()) return;
  agents_.erase(found);
  if (is_complete_) return calls_.left(name, how);
  calls_.tell("the agent of host " + name + " " + how + "; waiting for another one");
}

// --- Until all are there

std::string JoinedAgents::missing() const {
  const std::size_t all = settings_.names.size();
  std::string text = std::to_string(agents_.size()) + " of " + std::to_string(all) +
                     (all == 1 ? " agent has joined" : " agents have joined");
  if (!is_named()) return text;
  std::string names;
  for (const std::string& name : settings_.names) {
    const bool is_there = std::any_of(agents_.begin(), agents_.end(),
                                      [&](const Agent& agent) { return agent.name == name; });
    if (!is_there) names += (names.empty() ? "" : ", ") + name;
  }
  return text + "; missing: " + names;
}

void JoinedAgents::tell_progress() {
  const std::uint64_t now_ns = loop_.now_ns();
  progress_timer_.set(now_ns + kProgressNs);
  if (settings_.quiet || now_ns >= until_ns_) return;
  calls_.tell(missing() + "; waiting for " + duration_text(until_ns_ - now_ns) + " more");
}

void JoinedAgents::time_is_over() {
  progress_timer_.clear();
  calls_.failed({missing() + " within " + duration_text(settings_.limit_ns) +
                 "; see what `ftrun agent --join` says on the others, and whether port " +
                 std::to_string(port_) +
                 " of this host can be reached from there; --join-timeout sets the time"});
}

}  // namespace rejoin::launcher
