#include "protocol.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "launcher/base/loop.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/orders/orders.h"
#include "launcher/supervisor/supervisor.h"

namespace rejoin::scale {
namespace {

using namespace launcher;  // NOLINT(google-build-using-namespace) - what is simulated

constexpr std::uint64_t kSizeBytes = 4;  // of a message, in front of it

// Options of a job with a spare host.
RunOptions options_of(std::uint32_t hosts, std::uint32_t ranks_each) {
  RunOptions options;
  options.programs = {{.ranks = hosts * ranks_each, .command = {"./a.out"}}};
  options.layout.assign(hosts, ranks_each);
  options.between_nodes = BetweenNodes::kSockets;
  options.survive_host = true;
  for (std::uint32_t host = 0; host <= hosts; ++host) {
    const std::string digits = std::to_string(host);
    options.hosts.push_back("node" + std::string(5 - digits.size(), '0') + digits);
  }
  options.spare_hosts = {options.hosts.back()};
  options.hosts.pop_back();
  options.spares = 1;
  return options;
}

// As the launcher's driver makes it.
Order order_of_plan(const RunOptions& options) {
  Order order;
  Order::Plan& plan = *order.mutable_plan();
  plan.set_version("0.1.0");
  for (const char* word : {"ftrun", "--hostfile", "hosts", "--survive", "host", "./a.out"}) {
    plan.add_arguments(word);
  }
  constexpr int kVariables = 30, kBytesEach = 50;  // an environment of usual size
  for (int i = 0; i < kVariables; ++i) plan.add_environment(std::string(kBytesEach, 'x'));
  plan.set_directory("/home/user/job");
  plan.set_job(std::string(16, '0'));
  plan.set_secret(std::string(32, '0'));
  plan.add_ranks(options.ranks());
  for (const std::uint32_t ranks : options.layout) plan.add_layout(ranks);
  for (const std::string& host : options.hosts) plan.add_hosts(host);
  return order;
}

Position position() {
  Position at;
  at.context = 0x123456789abcdef0;
  at.sequence = at.ordinal = 100'000;
  at.inside = at.live = true;
  at.operation = "Allreduce";
  return at;
}

class Simulation {
 public:
  Simulation(std::uint32_t hosts, std::uint32_t ranks_each, const Constants& constants,
             const Stopwatch& stopwatch)
      : hosts_(hosts),
        each_(ranks_each),
        c_(constants),
        stopwatch_(stopwatch),
        options_(options_of(hosts, ranks_each)),
        plan_(order_of_plan(options_)),
        loop_(monotonic_ns()) {
    constexpr int kTimes = 1000;
    for (int i = 0; i < kTimes; ++i) {
      const std::uint64_t before = stopwatch_();
      watch_ns_ = std::min(watch_ns_, stopwatch_() - before);
    }
    JobPlan job;
    job.options = options_;
    job.options.quiet = true;
    for (std::uint32_t host = 0; host < hosts; ++host) {
      LocalRanks& local = job.hosts.emplace_back();
      for (std::uint32_t i = 0; i < ranks_each; ++i) local.push_back(first_of(host) + i);
    }
    job.replace = [this](const Action::Replace& a, const std::vector<std::string>& printed) {
      replace(a, printed);
    };
    supervisor_.emplace(loop_, std::move(job), EventLog::Target(),
                        [this](Order order) { orders_.push_back(std::move(order)); });
  }

  std::vector<Phase> run() {
    std::vector<Phase> phases;
    using Act = void (Simulation::*)();
    const std::pair<const char*, Act> all[] = {
        {"agents", &Simulation::start_agents}, {"ranks", &Simulation::start_ranks},
        {"set", &Simulation::make_set},        {"rank", &Simulation::kill_rank},
        {"host", &Simulation::lose_host},      {"beats", &Simulation::beat_for_a_lease},
        {"end", &Simulation::end_ranks}};
    for (const auto& [name, act] : all) {
      phase_ = {.name = name};
      now_ns_ = begun_ns_ = std::max({now_ns_, free_ns_, in_free_ns_, out_free_ns_});
      (this->*act)();
      while (!queue_.empty()) next();
      phase_.time_ns = std::max(now_ns_, free_ns_) - begun_ns_;
      phases.push_back(phase_);
    }
    return phases;
  }

 private:
  // A report on its way to the supervisor, or what an agent needs of an order to it.
  struct Message {
    std::uint64_t at_ns;
    std::uint64_t number;  // of messages with the same time, the first one sent is the first
    std::uint32_t host;
    std::string report = {};  // encoded; empty: an order
    Order::WhatCase order = Order::WHAT_NOT_SET;
    std::uint64_t set = 0;
    std::uint32_t rank = 0;
    std::uint32_t incarnation = 0;
    // The heap has the last one in front.
    bool operator<(const Message& other) const {
      return std::pair(at_ns, number) > std::pair(other.at_ns, other.number);
    }
  };

  std::uint32_t first_of(std::uint32_t host) const { return host * each_; }

  // --- Phases

  void start_agents() {
    from_supervisor([this] {
      for (std::uint32_t host = 0; host < hosts_; ++host) {
        plan_.set_host(host);
        send(plan_);
      }
    });
  }

  void start_ranks() {
    from_supervisor([this] { supervisor_->start(); });
  }

  void make_set() {
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      reply(host, 0, 0, Event::ImagesDue{false, false, 0});
    }
  }

  void kill_rank() {
    const std::uint32_t rank = first_of(hosts_ / 2);
    Event::Ended ended = {{Cause::Kind::kSignal, 9}, position(), {}, {}, {}};
    reply(hosts_ / 2, 0, rank, std::move(ended));
  }

  void lose_host() {
    Report lost;
    lost.set_agent_lost("has closed its connection");
    reply(hosts_ / 2, 0, lost);
  }

  void beat_for_a_lease() {
    constexpr std::uint64_t kTimes = 4;  // cli/agent_command.cc
    for (std::uint64_t i = 0; i < kTimes; ++i) {
      for (std::uint32_t host = 0; host < hosts_; ++host) {
        // Agents were started one after the other.
        const std::uint64_t period_ns = c_.lease_ns / kTimes;
        beat(host, i * period_ns + period_ns * host / hosts_);
      }
    }
  }

  void end_ranks() {
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      for (std::uint32_t i = 0; i < each_; ++i) {
        const std::uint32_t rank = first_of(host) + i;
        Report module;  // of the place that the next report names
        module.mutable_module()->set_rank(rank);
        module.mutable_module()->set_entry(std::string(sizeof(journal::ModuleEntry), 'x'));
        reply(host, 0, module);
        reply(host, 0, rank, Event::Finalized{position(), {}, 0});
        reply(host, 0, rank, Event::Ended{{Cause::Kind::kExit, 0}, position(), {}, {}, {}});
      }
      reply(host, 0, 0, Event::AllOver{host, {}});
    }
  }

  // --- The supervisor

  // Measures what the supervisor does now, and lets it take that time. What it sends meanwhile is
  // measured by itself.
  template <class Act>
  void timed(Act&& act) {
    const std::uint64_t outer_ns = std::exchange(inner_ns_, 0);
    const std::uint64_t before = stopwatch_();
    act();
    const std::uint64_t all_ns = stopwatch_() - before;
    const std::uint64_t ns = all_ns - std::min(all_ns, inner_ns_ + watch_ns_);
    inner_ns_ = outer_ns + all_ns;
    phase_.code_ns += ns;
    spend(ns);
  }

  void spend(std::uint64_t ns) {
    free_ns_ += ns;
    phase_.busy_ns += ns;
  }

  // What the supervisor does by itself, as soon as it can.
  template <class Act>
  void from_supervisor(Act&& act) {
    free_ns_ = std::max(free_ns_, now_ns_);
    timed(act);
    send_orders();
  }

  static std::uint64_t transfer_ns(std::uint64_t bytes, double bytes_a_second) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) / bytes_a_second * 1e9);
  }

  void hear(const Message& message) {
    const std::uint64_t bytes = message.report.size() + kSizeBytes;
    ++phase_.reports;
    phase_.bytes_in += bytes;
    in_free_ns_ = std::max(in_free_ns_, message.at_ns) + transfer_ns(bytes, c_.link_bytes_a_second);
    free_ns_ = std::max(free_ns_, in_free_ns_);
    spend(c_.receive_ns);
    timed([&] { take(message); });
    send_orders();
  }

  // As launcher/hosts/agents.cc does.
  void take(const Message& message) {
    Report report;
    report.ParseFromString(message.report);
    report.set_host(message.host);
    if (report.what_case() == Report::kBeat) {
      Order answer;
      answer.set_host(message.host);
      answer.set_beat(report.beat());
      return send(answer);
    }
    if (report.what_case() == Report::kReady) return note_ready(message.host);
    supervisor_->report(report);
  }

  void note_ready(std::uint32_t host) {
    if (ready_ == hosts_) {  // it takes the place of another one
      send_all(addresses_of(host, host + 1));
      Order all = addresses_of(0, hosts_);
      all.set_host(host);
      return send(all);
    }
    if (++ready_ == hosts_) send_all(addresses_of(0, hosts_));
  }

  Order addresses_of(std::uint32_t first, std::uint32_t end) const {
    constexpr std::uint32_t kPort = 40'000;
    Order order;
    order.mutable_relays()->set_first(first);
    for (std::uint32_t host = first; host < end; ++host) {
      order.mutable_relays()->add_host(options_.hosts[host]);
      order.mutable_relays()->add_port(kPort);
      order.mutable_relays()->add_part_port(kPort);
    }
    return order;
  }

  void send_all(Order order) {
    for (std::uint32_t to = 0; to < hosts_; ++to) {
      order.set_host(to);
      send(order);
    }
  }

  void replace(const Action::Replace& a, const std::vector<std::string>& printed) {
    Order order = plan_;
    order.set_host(a.host);
    order.mutable_plan()->set_incarnation(a.incarnation);
    Order::Plan::Part& part = *order.mutable_plan()->mutable_part();
    part.set_holder(a.holder);
    part.set_host(options_.hosts[a.holder]);
    part.set_set(a.set);
    part.set_takes_over(true);
    for (const std::string& bytes : printed) part.add_printed(bytes);
    send(order);
  }

  void send_orders() {
    while (!orders_.empty()) {
      const Order order = std::move(orders_.front());
      orders_.pop_front();
      send(order);
    }
  }

  void send(const Order& order) {
    timed([&] {
      order.SerializeToString(&encoded_);
      unsent_.assign(encoded_);
    });
    spend(c_.send_ns);
    const std::uint64_t bytes = encoded_.size() + kSizeBytes;
    ++phase_.orders;
    phase_.bytes_out += bytes;
    out_free_ns_ = std::max(out_free_ns_, free_ns_) + transfer_ns(bytes, c_.link_bytes_a_second);
    Message message = {out_free_ns_ + c_.latency_ns, 0, order.host()};
    message.order = order.what_case();
    if (order.has_want_images()) message.set = order.want_images().number();
    if (order.has_store_part()) message.set = order.store_part().set();
    if (order.what_case() == Order::kKeepSet) message.set = order.keep_set();
    if (order.has_respawn()) message.rank = order.respawn().rank();
    if (order.has_roll_back()) {
      message.set = order.roll_back().set();
      message.incarnation = order.roll_back().incarnation();
    }
    if (order.has_plan()) {
      message.set = order.plan().part().set();
      message.incarnation = order.plan().incarnation();
    }
    post(std::move(message));
  }

  // --- Agents

  void obey(const Message& m) {
    const std::uint32_t first = first_of(m.host);
    switch (m.order) {
      case Order::kPlan:
        return get_ready(m);
      case Order::kStart:
        for (std::uint32_t r = first; r < first + each_; ++r) {
          begin(m.host, r, c_.rank_start_ns, true);
        }
        return;
      case Order::kWantImages:
        return reply(m.host, c_.images_ns, 0, Event::OfSet{m.set, SetNews::kMade});
      case Order::kStorePart:
        return reply(m.host, c_.store_ns, 0,
                     Event::OfSet{m.set, SetNews::kStored, std::vector<std::uint64_t>(2 * each_)});
      case Order::kKeepSet:
        reply(m.host, 0, 0, Event::Snapshot{{each_, c_.store_ns, 0, 100 << 20, 100 << 20}});
        return reply(m.host, c_.settle_ns, 0, Event::OfSet{m.set, SetNews::kSettled});
      case Order::kRespawn:
        return begin(m.host, m.rank, c_.rank_start_ns, false);
      case Order::kRollBack:
        return reply(m.host, c_.go_back_ns, 0, Event::RolledBack{m.set, 1'000, m.incarnation});
      case Order::kWake:
        for (std::uint32_t r = first; r < first + each_; ++r) begin(m.host, r, 0, false);
        return;
      case Order::kFinish: {
        Report finished;
        finished.mutable_finished();
        return reply(m.host, 0, finished);
      }
      default:
        return;
    }
  }

  void get_ready(const Message& plan) {
    const bool takes_over = plan.set != 0;
    const std::uint64_t after_ns = c_.agent_start_ns + (takes_over ? c_.take_over_ns : 0);
    beat(plan.host, c_.agent_start_ns);
    Report ready;
    ready.mutable_ready()->set_port(40'000);
    ready.mutable_ready()->set_part_port(40'001);
    ready.mutable_ready()->set_now_ns(c_.agent_start_ns);
    reply(plan.host, after_ns, ready);
    if (!takes_over) return;
    reply(plan.host, after_ns, 0, Event::RolledBack{plan.set, 1'000, plan.incarnation});
  }

  // A process becomes the rank. It says that it is live unless it began at main.
  void begin(std::uint32_t host, std::uint32_t rank, std::uint64_t after_ns, bool from_main) {
    constexpr std::int64_t kPid = 1'000'000;
    reply(host, 0, rank, Event::Started{kPid});
    reply(host, after_ns, rank, Event::Registered{kPid});
    reply(host, after_ns, rank, Event::Initialized{});
    const RecoveryPoint snapshot = {RecoveryPoint::Kind::kSnapshot, 500'000'000};
    if (!from_main) reply(host, after_ns, rank, Event::Live{0, snapshot, 0});
  }

  void beat(std::uint32_t host, std::uint64_t after_ns) {
    Report report;
    report.set_beat(now_ns_ + after_ns);
    reply(host, after_ns, report);
  }

  void reply(std::uint32_t host, std::uint64_t after_ns, std::uint32_t rank,
             decltype(Event::what) what) {
    reply(host, after_ns, to_report({now_ns_ + after_ns, rank, std::move(what), 1}));
  }

  void reply(std::uint32_t host, std::uint64_t after_ns, Report report) {
    report.set_host(host);
    Message message = {now_ns_ + after_ns + c_.latency_ns, 0, host};
    message.report = report.SerializeAsString();
    post(std::move(message));
  }

  // --- Messages on their way

  void post(Message message) {
    message.number = ++posted_;
    queue_.push_back(std::move(message));
    std::push_heap(queue_.begin(), queue_.end());
  }

  void next() {
    std::pop_heap(queue_.begin(), queue_.end());
    const Message message = std::move(queue_.back());
    queue_.pop_back();
    now_ns_ = message.at_ns;
    message.order == Order::WHAT_NOT_SET ? hear(message) : obey(message);
  }

  const std::uint32_t hosts_, each_;
  const Constants c_;
  const Stopwatch stopwatch_;
  RunOptions options_;
  Order plan_;  // for all agents
  Loop loop_;
  std::optional<Supervisor> supervisor_;
  std::deque<Order> orders_;      // of the supervisor, not sent yet
  std::string encoded_, unsent_;  // as in MessageStream
  std::uint32_t ready_ = 0;       // agents
  std::vector<Message> queue_;    // a heap
  std::uint64_t posted_ = 0;
  std::uint64_t now_ns_ = 0, begun_ns_ = 0;
  // When the supervisor, and both directions of its link, have nothing to do any more.
  std::uint64_t free_ns_ = 0, in_free_ns_ = 0, out_free_ns_ = 0;
  std::uint64_t watch_ns_ = ~std::uint64_t{0};  // what the stopwatch takes itself
  std::uint64_t inner_ns_ = 0;                  // of what is being measured: measured by itself
  Phase phase_;
};

}  // namespace

std::uint64_t thread_time_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

void calibrate(Constants& constants, std::uint32_t hosts) {
  constexpr int kRounds = 20, kMessageBytes = 30;
  Loop loop(monotonic_ns());
  std::uint32_t received = 0;
  std::vector<Descriptor> writers, readers;
  std::vector<std::unique_ptr<MessageStream>> streams;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) break;
    writers.emplace_back(in[1]);
    Descriptor from(in[0]);
    if (pipe2(out, O_CLOEXEC) != 0) break;
    readers.emplace_back(out[0]);
    streams.push_back(std::make_unique<MessageStream>(
        loop, std::move(from), Descriptor(out[1]),
        MessageStream::Calls{[&](std::string_view) { ++received; }, [](const std::string&) {}}));
  }
  const auto count = static_cast<std::uint32_t>(streams.size());
  const std::string message(kMessageBytes, 'x');
  const std::string framed = std::string{kMessageBytes, 0, 0, 0} + message;
  std::uint64_t receive_ns = ~std::uint64_t{0}, send_ns = receive_ns, before = 0;
  int round = 0;
  loop.run([&] {
    if (received < count && round > 0) return;
    if (round > 0) receive_ns = std::min(receive_ns, thread_time_ns() - before);
    before = thread_time_ns();
    for (const auto& stream : streams) stream->send(message);
    send_ns = std::min(send_ns, thread_time_ns() - before);
    char bytes[2 * kMessageBytes];
    for (const Descriptor& reader : readers) (void)!read(reader.get(), bytes, sizeof bytes);
    if (++round > kRounds) return loop.post([&] { loop.stop(); });
    received = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      write_all(writers[i].get(), framed.data(), framed.size());
    }
    before = thread_time_ns();
  });
  constants.streams = count;
  constants.receive_ns = receive_ns / count;
  constants.send_ns = send_ns / count;
}

std::vector<Phase> simulate_protocol(std::uint32_t hosts, std::uint32_t ranks_each,
                                     const Constants& constants, const Stopwatch& stopwatch) {
  return Simulation(hosts, ranks_each, constants, stopwatch).run();
}

}  // namespace rejoin::scale
