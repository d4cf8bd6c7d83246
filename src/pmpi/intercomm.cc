// Intercommunicators: made of two groups, taken apart, merged, asked for their groups. What moves
// data over them is in point_to_point.cc and inter_collectives.cc.
#include <string.h>

#include <algorithm>

#include "api.h"
#include "pmpi/call.h"
#include "pmpi/comm.h"
#include "pmpi/errors.h"
#include "pmpi/group.h"

namespace rejoin::pmpi {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Status;

namespace {

// The description of a group that leaders exchange, and that each then gives to its own group. The
// members follow, with room for all ranks of the job.
struct Side {
  std::uint64_t id;     // the intercommunicator's context; 0: there will be none
  std::int32_t code;    // the error, if there will be none
  std::uint32_t size;   // number of members
  std::uint32_t after;  // whether the group is the second one of the context

  std::uint32_t* members() { return reinterpret_cast<std::uint32_t*>(this + 1); }
  const std::uint32_t* members() const { return reinterpret_cast<const std::uint32_t*>(this + 1); }
};

std::size_t side_bytes() { return sizeof(Side) + context->rank->size() * sizeof(std::uint32_t); }

// Returns the same colour at both leaders of a pair, and different ones for other pairs or tags.
std::uint64_t colour_of_pair(WorldRanks pair, int tag) {
  return colour_of(pair, std::uint64_t{2} << 32 | static_cast<std::uint32_t>(tag));
}

// Returns the call of a second operation within one MPI call, with the same bootstrap mark.
recovery::Call second_of(recovery::Call call, recovery::Hint* hint) {
  if (call.hint == nullptr) return call;
  *hint = {call.hint->bootstrap, call.hint->key == 0 ? 0 : journal::mix(call.hint->key) | 1};
  call.hint = hint;
  return call;
}

bool have_common_member(WorldRanks a, WorldRanks b) {
  const Positions in_a(a);
  return std::ranges::any_of(b, [&](std::uint32_t r) { return in_a.has(r); });
}

// Exchanges the groups between the leaders, in a communicator of these two that is identified by
// its members and the tag. *got: the other group, or the error.
void introduce(const recovery::Call& call, MPI_Comm local, MPI_Comm peer, int remote_leader,
               int tag, Side* got) {
  got->id = 0;
  if (!is_any_comm(peer)) {
    got->code = MPI_ERR_COMM;
    return;
  }
  if (remote_leader < 0 || remote_leader >= peer->peers()) {
    got->code = MPI_ERR_RANK;
    return;
  }
  const WorldRanks own = ranks_of(local);
  const std::uint32_t me = context->rank->rank(), other = peers_of(peer)[remote_leader];
  got->code = MPI_ERR_COMM;
  if (std::ranges::find(own, other) != own.end()) return;
  const std::uint32_t pair[] = {std::min(me, other), std::max(me, other)};
  const std::uint64_t colour = colour_of_pair(pair, tag);
  const std::uint64_t count = count_creation("MPI_Intercomm_create", peer, colour);
  const std::uint64_t bridge_id =
      journal::derive_context(peer->comm->members.context, count, colour);
  Rank::Comm* bridge = context->rank->make_comm(bridge_id, pair, 2);
  if (bridge == nullptr) {
    end_job(MPI_ERR_NO_MEM, "there is no memory for another communicator");
  }
  const std::size_t bytes = side_bytes();
  Scratch memory(bytes);
  Side* mine = memory.as<Side>();
  memset(mine, 0, bytes);
  mine->size = static_cast<std::uint32_t>(own.size());
  memcpy(mine->members(), own.data(), own.size_bytes());
  recovery::ReplicatedSpec spec;
  spec.input = mine;
  spec.input_bytes = bytes;
  spec.result_bytes = 2 * bytes;
  const Outcome o = context->rank->replicated(*bridge, call, spec);
  const std::uint32_t place = me < other ? 1 : 0;
  if (o.status == Status::kOk) memcpy(got, o.data() + place * bytes, bytes);
  context->rank->free_comm(bridge);
  got->code = o.status == Status::kOk ? MPI_SUCCESS : MPI_ERR_NOT_SAME;
  if (got->code == MPI_SUCCESS && have_common_member(own, {got->members(), got->size})) {
    got->code = MPI_ERR_COMM;
  }
  got->after = place;
  if (got->code == MPI_SUCCESS) got->id = journal::derive_context(bridge_id, 0, 1);
}

int explain(const char* name, MPI_Comm comm, int code) {
  switch (code) {
    case MPI_ERR_COMM:
      return fail(name, comm, code,
                  "the peer communicator cannot be used by the leader, or the groups have a member "
                  "in common");
    case MPI_ERR_RANK:
      return fail(name, comm, code, "the remote leader is not a rank of the peer communicator");
    default:
      return fail(name, comm, code, "the two leaders did not pass matching arguments");
  }
}

}  // namespace

MPI_Comm open_inter(MPI_Comm parent, std::uint64_t id, WorldRanks first, WorldRanks second) {
  const auto a = static_cast<std::uint32_t>(first.size());
  const auto b = static_cast<std::uint32_t>(second.size());
  Scratch both((a + b) * sizeof(std::uint32_t));
  std::ranges::copy(second, std::ranges::copy(first, both.as<std::uint32_t>()).out);
  MPI_Comm c = open_child(parent, id, {both.as<std::uint32_t>(), std::size_t{a} + b});
  c->magic = Magic::kInter;
  const bool in_first = c->comm->members.rank < a;
  c->own_first = in_first ? 0 : a;
  c->own_count = in_first ? a : b;
  c->peer_first = in_first ? a : 0;
  c->peer_count = in_first ? b : a;
  return c;
}

WorldRanks first_group(MPI_Comm inter) {
  return inter->own_first == 0 ? ranks_of(inter) : peers_of(inter);
}
WorldRanks second_group(MPI_Comm inter) {
  return inter->own_first == 0 ? peers_of(inter) : ranks_of(inter);
}

// Makes a new intercommunicator from the members of both groups that pass the same colour.
int split_inter(const char* name, const void* site, MPI_Comm comm, ColourAndKey mine,
                MPI_Comm* newcomm) {
  *newcomm = MPI_COMM_NULL;
  const Outcome o = meet(site, comm, OpKind::kCommSplit, &mine, sizeof mine);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  if (mine.colour == MPI_UNDEFINED) return MPI_SUCCESS;
  const WorldRanks groups[] = {first_group(comm), second_group(comm)};
  const auto* given = reinterpret_cast<const ColourAndKey*>(o.data());
  Scratch members(comm->comm->members.size * sizeof(std::uint32_t));
  WorldRanks parts[2];
  std::uint32_t* part = members.as<std::uint32_t>();
  for (int side = 0; side < 2; ++side) {
    const int n = members_of_part({given, groups[side].size()}, mine.colour, part);
    for (int i = 0; i < n; ++i) part[i] = groups[side][part[i]];
    parts[side] = {part, static_cast<std::size_t>(n)};
    part += n;
    given += groups[side].size();
  }
  if (parts[0].empty() || parts[1].empty()) return MPI_SUCCESS;
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, o.sequence,
                                                   static_cast<std::uint32_t>(mine.colour));
  *newcomm = open_inter(comm, id, parts[0], parts[1]);
  return MPI_SUCCESS;
}

// Each side passes a group of its own. Each member contributes its rank in that group, so that both
// sides know both groups.
int create_inter(const char* name, const void* site, MPI_Comm comm, MPI_Group group,
                 MPI_Comm* newcomm) {
  *newcomm = MPI_COMM_NULL;
  struct Place {
    std::int32_t rank, size;
  };
  const Place mine = {group->rank, group->size};
  const Outcome o = meet(site, comm, OpKind::kCommCreate, &mine, sizeof mine);
  if (o.status != Status::kOk) return fail_status(name, comm, o.status);
  const WorldRanks groups[] = {first_group(comm), second_group(comm)};
  const auto* given = reinterpret_cast<const Place*>(o.data());
  Scratch members(comm->comm->members.size * sizeof(std::uint32_t));
  WorldRanks parts[2];
  std::uint32_t* part = members.as<std::uint32_t>();
  for (int side = 0; side < 2; ++side) {
    const std::size_t n = static_cast<std::size_t>(given->size);
    std::size_t found = 0;
    for (std::size_t i = 0; i < groups[side].size(); ++i, ++given) {
      if (given->rank == MPI_UNDEFINED) continue;
      if (static_cast<std::size_t>(given->rank) < n) part[given->rank] = groups[side][i];
      ++found;
    }
    if (found != n) {
      return fail(name, comm, MPI_ERR_GROUP, "members of the same side passed different groups");
    }
    parts[side] = {part, n};
    part += n;
  }
  if (parts[0].empty() || parts[1].empty() || group->rank == MPI_UNDEFINED) return MPI_SUCCESS;
  const std::uint64_t id = journal::derive_context(comm->comm->members.context, o.sequence, 0);
  *newcomm = open_inter(comm, id, parts[0], parts[1]);
  return MPI_SUCCESS;
}

int intercomm_create(const void* site, MPI_Comm local_comm, int local_leader, MPI_Comm bridge_comm,
                     int remote_leader, int tag, MPI_Comm* newintercomm) {
  constexpr const char* kName = "MPI_Intercomm_create";
  if (!is_comm(local_comm)) return fail_comm(kName, local_comm);
  if (local_leader < 0 || local_leader >= local_comm->size()) {
    return fail(kName, local_comm, MPI_ERR_RANK, "the local leader is %d; the group has %d ranks",
                local_leader, local_comm->size());
  }
  if (tag < 0)
    return fail(kName, local_comm, MPI_ERR_TAG, "the tag is %d; it must be 0 or more", tag);
  *newintercomm = MPI_COMM_NULL;
  const bool leads = local_comm->rank() == local_leader;
  const std::size_t bytes = side_bytes();
  recovery::Call call = call_of(site, OpKind::kIntercommCreate, -1, bytes);
  recovery::Hint hint;
  Scratch memory(leads ? bytes : 1);
  if (leads) {
    memset(memory.data(), 0, bytes);
    introduce(call, local_comm, bridge_comm, remote_leader, tag, memory.as<Side>());
    call = second_of(call, &hint);
  }
  // The leader gives all members of its group the description of the other group.
  const std::uint32_t n = local_comm->comm->members.size;
  Scratch offsets((n + 1) * sizeof(std::size_t));
  auto* begin = offsets.as<std::size_t>();
  for (std::uint32_t i = 0; i <= n; ++i) {
    begin[i] = i > static_cast<std::uint32_t>(local_leader) ? bytes : 0;
  }
  call.signature.root = local_leader;
  recovery::ReplicatedSpec spec;
  spec.input = memory.data();
  spec.input_bytes = leads ? bytes : 0;
  spec.result_bytes = bytes;
  spec.blocks = begin;
  const Outcome o = context->rank->replicated(*local_comm->comm, call, spec);
  if (o.status != Status::kOk) return fail_status(kName, local_comm, o.status);
  const Side* other = reinterpret_cast<const Side*>(o.data());
  if (other->id == 0) return explain(kName, local_comm, other->code);
  const WorldRanks own = ranks_of(local_comm), theirs = {other->members(), other->size};
  *newintercomm = other->after != 0 ? open_inter(local_comm, other->id, own, theirs)
                                    : open_inter(local_comm, other->id, theirs, own);
  return MPI_SUCCESS;
}

int intercomm_merge(const void* site, MPI_Comm intercomm, int high, MPI_Comm* newintercomm) {
  constexpr const char* kName = "MPI_Intercomm_merge";
  if (!is_inter(intercomm)) return fail_comm(kName, intercomm);
  *newintercomm = MPI_COMM_NULL;
  const std::uint32_t mine = high != 0 ? 1 : 0;
  const Outcome o = meet(site, intercomm, OpKind::kIntercommMerge, &mine, sizeof mine);
  if (o.status != Status::kOk) return fail_status(kName, intercomm, o.status);
  const std::span<const std::uint32_t> given(reinterpret_cast<const std::uint32_t*>(o.data()),
                                             intercomm->comm->members.size);
  const std::size_t a = first_group(intercomm).size();
  const auto differs = [](std::span<const std::uint32_t> group) {
    return std::ranges::any_of(group, [&](std::uint32_t h) { return h != group.front(); });
  };
  if (differs(given.first(a)) || differs(given.subspan(a))) {
    return fail(kName, intercomm, MPI_ERR_ARG,
                "members of the same group passed different values of high");
  }
  WorldRanks low = first_group(intercomm), up = second_group(intercomm);
  if (given.front() > given.back()) std::swap(low, up);
  Scratch both((low.size() + up.size()) * sizeof(std::uint32_t));
  std::ranges::copy(up, std::ranges::copy(low, both.as<std::uint32_t>()).out);
  const std::uint64_t id = journal::derive_context(intercomm->comm->members.context, o.sequence, 0);
  *newintercomm = open_child(intercomm, id, {both.as<std::uint32_t>(), low.size() + up.size()});
  return MPI_SUCCESS;
}

int comm_test_inter(MPI_Comm comm, int* flag) {
  if (!is_any_comm(comm)) return fail_comm("MPI_Comm_test_inter");
  *flag = is_inter(comm);
  return MPI_SUCCESS;
}

int comm_remote_size(MPI_Comm comm, int* size) {
  if (!is_inter(comm)) return fail_comm("MPI_Comm_remote_size", comm);
  *size = comm->peers();
  return MPI_SUCCESS;
}

int comm_remote_group(MPI_Comm comm, MPI_Group* group) {
  if (!is_inter(comm)) return fail_comm("MPI_Comm_remote_group", comm);
  *group = make_group(peers_of(comm).data(), comm->peers());
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
