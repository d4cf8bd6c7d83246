// Messages between two ranks, as a program sends and receives them.
#include <cstring>

#include "player.h"

namespace rejoin::sim {

using recovery::Envelope;
using recovery::OpKind;

namespace {

constexpr std::uint64_t kMessageSite = 0x9000;

}  // namespace

bool is_in_journal(const SimHost& host, const recovery::Arrived& a) {
  if (!host.is_near(a.from)) return true;  // it may have gone to the program alone
  const journal::Offset channels = journal::region_of(host.base(), a.from)->channels;
  auto& log = reinterpret_cast<journal::Log*>(host.base() + channels)[host.rank()];
  const auto& entry = *journal::log_at<journal::ChannelEntry>(host.base(), log, a.index);
  return entry.written.load() >= entry.bytes;
}

std::uint32_t Player::begin_message(OpKind kind) {
  recovery::Call c = {};
  c.signature.kind = static_cast<std::uint16_t>(kind);
  c.signature.root = -1;
  c.site = reinterpret_cast<const void*>(kMessageSite + 16 * static_cast<std::uint64_t>(kind));
  return rank_.messages().begin(c);
}

void Player::learn(std::uint64_t what) {
  state_ = journal::mix(state_ + what);
  ++operations_;
  used_ = kKeptBytes;
}

void Player::send(Comm& c, std::uint32_t to, int tag, std::size_t count) {
  Pending p;
  isend(c, &p, to, tag, count, false);
}

void Player::ssend(Comm& c, std::uint32_t to, int tag, std::size_t count) {
  Pending p;
  isend(c, &p, to, tag, count, true);
  wait(&p);
}

void Player::isend(Comm& c, Pending* p, std::uint32_t to, int tag, std::size_t count,
                   bool synchronous) {
  const Buffer b = contribution(c, count, false);
  post_message(c, begin_message(synchronous ? OpKind::kIssend : OpKind::kIsend), p, to, tag, b,
               synchronous);
  rank_.messages().end();
  learn(c.group->members[to]);
}

void Player::post_message(Comm& c, std::uint32_t call, Pending* p, std::uint32_t to, int tag,
                          const Buffer& b, bool synchronous) {
  const std::uint32_t world = c.group->members[to];
  job_.fail_if(job_.messages().sent(rank(), world, sent_[world], tag, c.group->context,
                                    hash_of_bytes(b.data, b.bytes())));
  const bool resent = rank_.messages().posted(world) > sent_[world];
  p->kind = synchronous ? Pending::kSynchronous : Pending::kNone;
  p->sent = rank_.messages().send(*c.comm, call, to, tag, synchronous, 0, {b.bytes(), b.data});
  if (p->sent.index != sent_[world]) job_.fail_if("messages: a message has another number");
  ++sent_[world];
  if (resent) job_.hit(Probe::kResent);
}

void Player::irecv(Comm& c, Pending* p, int from, int tag) {
  begin_message(OpKind::kIrecv);
  post_receive(c, p, from, tag, nullptr);
  rank_.messages().end();
}

void Player::post_receive(Comm& c, Pending* p, int from, int tag, const Buffer* to) {
  p->kind = Pending::kReceive;
  p->comm = &c;
  p->receive = {};
  p->receive.source = from < 0 ? recovery::kAnySource : c.group->members[from];
  p->receive.tag = tag < 0 ? recovery::kAnyTag : SimMessages::key_of(tag);
  if (to != nullptr) {
    p->receive.to = reinterpret_cast<std::byte*>(to->data);
    p->receive.room = to->bytes();
  }
  rank_.messages().post(*c.comm, p->receive);
}

void Player::sendrecv(Comm& c, std::uint32_t to, int from, int tag, std::size_t count) {
  const Buffer out = contribution(c, count, false), in = buffer(count);
  const std::uint32_t call = begin_message(OpKind::kSendrecv);
  Pending got, sent;
  post_receive(c, &got, from, tag, &in);
  post_message(c, call, &sent, to, tag, out, false);
  // What was sent may change now, and what was received may not.
  std::memset(static_cast<void*>(out.data), 0, out.bytes());
  await(&got);
  finish(&got, &in);
  rank_.messages().end();
}

void Player::recv(Comm& c, int from, int tag) {
  Pending p;
  irecv(c, &p, from, tag);
  wait(&p);
}

bool Player::is_over(Pending* p, bool thorough) {
  if (p->kind == Pending::kSynchronous) return rank_.messages().is_matched(p->sent);
  if (p->kind == Pending::kReceive) return rank_.messages().advance(p->receive, thorough);
  if (p->kind == Pending::kCollective) return is_over(*p->collective);
  return true;
}

void Player::finish(Pending* p, const Buffer* to) {
  if (p->kind == Pending::kCollective) learn(finish_collective(p));
  if (p->kind == Pending::kReceive && !p->receive.cancelled) {
    const recovery::Arrived& a = *p->receive.message;
    const Envelope e = rank_.messages().envelope(p->receive);
    const Buffer b =
        to != nullptr ? *to : buffer((e.bytes + sizeof(Element) - 1) / sizeof(Element));
    rank_.messages().read(p->receive, e.bytes, reinterpret_cast<std::byte*>(b.data),
                          [&](const std::byte* data, std::uint64_t at, std::uint64_t n) {
                            std::memcpy(reinterpret_cast<std::byte*>(b.data) + at, data, n);
                          });
    const std::uint64_t hash = hash_of_bytes(b.data, e.bytes);
    bool again = false;
    job_.fail_if(job_.messages().given(rank(), p->receive.number, a.from, a.index, hash, &again));
    if (again) job_.hit(Probe::kReceivedAgain);
    if (!is_in_journal(rank_.host(), a)) job_.fail_if("a message is received before it is stored");
    rank_.messages().consume(p->receive);
    learn(hash + a.from);
  }
  p->kind = Pending::kNone;
}

void Player::await(Pending* p) {
  if (p->kind == Pending::kCollective) show_awaited(*p->collective);
  rank_.messages().wait([&](bool thorough) {
    if (thorough) rank_.messages().progress(true);
    return is_over(p, thorough);
  });
}

void Player::wait(Pending* p) {
  begin_message(OpKind::kWait);
  await(p);
  finish(p);
  rank_.messages().end();
}

void Player::told(std::uint64_t answer) {
  job_.fail_if(job_.messages().told(rank(), questions_++, answer));
  learn(answer);
}

bool Player::test(Pending* p) {
  const bool over = rank_.messages().observe([&](bool thorough) { return is_over(p, thorough); },
                                             [&] { await(p); });
  told(over);
  if (over) finish(p);
  return over;
}

int Player::wait_any(Pending* all, int count) {
  begin_message(OpKind::kWaitany);
  const int i = rank_.messages().observe_index(
      [&](bool) {
        int found = -1;
        rank_.messages().wait([&](bool thorough) {
          for (int k = count; k-- > 0;) {
            if (all[k].kind != Pending::kNone && is_over(&all[k], thorough)) found = k;
          }
          return found >= 0;
        });
        return found;
      },
      [&](int k) { await(&all[k]); });
  told(static_cast<std::uint64_t>(i));
  finish(&all[i]);
  rank_.messages().end();
  return i;
}

int Player::test_some(Pending* all, int count, int* indices) {
  const int over = rank_.messages().observe_some(
      indices,
      [&](bool thorough, int* out) {
        int n = 0;
        for (int k = 0; k < count; ++k) {
          if (all[k].kind != Pending::kNone && is_over(&all[k], thorough)) out[n++] = k;
        }
        return n;
      },
      [&](int k) { await(&all[k]); });
  told(static_cast<std::uint64_t>(over));
  for (int i = 0; i < over; ++i) {
    told(static_cast<std::uint64_t>(indices[i]));
    finish(&all[indices[i]]);
  }
  return over;
}

bool Player::iprobe(Comm& c, int from, int tag) {
  Envelope e = {};
  const bool there =
      rank_.messages().probe(*c.comm, from < 0 ? recovery::kAnySource : c.group->members[from],
                             tag < 0 ? recovery::kAnyTag : SimMessages::key_of(tag), &e);
  told(there ? journal::mix(e.from * 1000 + static_cast<std::uint64_t>(e.tag)) : 0);
  return there;
}

int Player::probe(Comm& c, int from, int tag, int* got_tag) {
  begin_message(OpKind::kProbe);
  const Envelope e = rank_.messages().wait_for_message(
      *c.comm, from < 0 ? recovery::kAnySource : c.group->members[from],
      tag < 0 ? recovery::kAnyTag : SimMessages::key_of(tag));
  told(journal::mix(e.from * 1000 + static_cast<std::uint64_t>(e.tag)));
  rank_.messages().end();
  *got_tag = e.tag;
  for (std::uint32_t i = 0; i < c.size(); ++i) {
    if (c.group->members[i] == e.from) return static_cast<int>(i);
  }
  return -1;
}

bool Player::cancel(Pending* p) {
  const bool cancelled = rank_.messages().cancel(*p->comm->comm, p->receive);
  told(cancelled);
  if (cancelled) p->kind = Pending::kNone;
  return cancelled;
}

}  // namespace rejoin::sim
