// MPI_Group_*. A group is a list of world ranks in this process alone.
#include "pmpi/group.h"

#include <string.h>

#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"

namespace rejoin::pmpi {

MPI_Group make_group(const std::uint32_t* members, int size) {
  if (size == 0) return MPI_GROUP_EMPTY;
  MPI_Group g = make<ompi_group_t>();
  g->magic = Magic::kGroup;
  g->members = static_cast<std::uint32_t*>(allocate(size * sizeof(std::uint32_t)));
  memcpy(g->members, members, size * sizeof(std::uint32_t));
  g->size = size;
  g->rank = MPI_UNDEFINED;
  for (int i = 0; i < size; ++i) {
    if (members[i] == context->rank->rank()) g->rank = i;
  }
  g->fortran = kNoFortranHandle;
  return g;
}

namespace {

int fail_group(const char* function) {
  return fail(function, MPI_COMM_WORLD, MPI_ERR_GROUP,
              "the group is MPI_GROUP_NULL, or it was freed");
}

int fail_ranks(const char* function) {
  return fail(function, MPI_COMM_WORLD, MPI_ERR_RANK,
              "the ranks must be those of the group, each at most once");
}

using SetOperation = int (*)(WorldRanks, WorldRanks, std::uint32_t*);

int combine(const char* name, SetOperation operation, MPI_Group a, MPI_Group b, MPI_Group* result) {
  require_active(name);
  if (!is_group(a) || !is_group(b)) return fail_group(name);
  Scratch out((a->size + b->size + 1) * sizeof(std::uint32_t));
  const int n = operation(ranks_of(a), ranks_of(b), out.as<std::uint32_t>());
  *result = make_group(out.as<std::uint32_t>(), n);
  return MPI_SUCCESS;
}

// REQUIRES ranks that were checked.
void include(MPI_Group group, int n, const int* ranks, MPI_Group* result) {
  Scratch out((n + 1) * sizeof(std::uint32_t));
  for (int i = 0; i < n; ++i) out.as<std::uint32_t>()[i] = group->members[ranks[i]];
  *result = make_group(out.as<std::uint32_t>(), n);
}

void leave_out(MPI_Group group, int n, const int* ranks, MPI_Group* result) {
  Scratch out((group->size + 1) * sizeof(std::uint32_t));
  const int left = exclude(ranks_of(group), n, ranks, out.as<std::uint32_t>());
  *result = make_group(out.as<std::uint32_t>(), left);
}

using Choice = void (*)(MPI_Group, int, const int*, MPI_Group*);

int choose(const char* name, Choice choice, MPI_Group group, int n, const int* ranks,
           MPI_Group* result) {
  require_active(name);
  if (!is_group(group)) return fail_group(name);
  if (n < 0 || !are_distinct_ranks(group->size, n, ranks)) return fail_ranks(name);
  choice(group, n, ranks, result);
  return MPI_SUCCESS;
}

int choose_ranges(const char* name, Choice choice, MPI_Group group, int n, int (*ranges)[3],
                  MPI_Group* result) {
  require_active(name);
  if (!is_group(group)) return fail_group(name);
  Scratch ranks((group->size + 1) * sizeof(int));
  const int count = n < 0 ? -1 : expand_ranges(group->size, n, ranges, ranks.as<int>());
  if (count < 0) return fail_ranks(name);
  choice(group, count, ranks.as<int>(), result);
  return MPI_SUCCESS;
}

}  // namespace

int comparison(WorldRanks a, WorldRanks b) {
  switch (compare_groups(a, b)) {
    case GroupOrder::kIdent:
      return MPI_IDENT;
    case GroupOrder::kSimilar:
      return MPI_SIMILAR;
    case GroupOrder::kUnequal:
      break;
  }
  return MPI_UNEQUAL;
}

int group_size(MPI_Group group, int* size) {
  constexpr const char* kName = "MPI_Group_size";
  require_active(kName);
  if (!is_group(group)) return fail_group(kName);
  *size = group->size;
  return MPI_SUCCESS;
}

int group_rank(MPI_Group group, int* rank) {
  constexpr const char* kName = "MPI_Group_rank";
  require_active(kName);
  if (!is_group(group)) return fail_group(kName);
  *rank = group->rank;
  return MPI_SUCCESS;
}

int group_compare(MPI_Group group1, MPI_Group group2, int* result) {
  constexpr const char* kName = "MPI_Group_compare";
  require_active(kName);
  if (!is_group(group1) || !is_group(group2)) return fail_group(kName);
  *result = comparison(ranks_of(group1), ranks_of(group2));
  return MPI_SUCCESS;
}

int group_translate_ranks(MPI_Group group1, int n, const int ranks1[], MPI_Group group2,
                          int ranks2[]) {
  constexpr const char* kName = "MPI_Group_translate_ranks";
  require_active(kName);
  if (!is_group(group1) || !is_group(group2)) return fail_group(kName);
  const Positions in_2(ranks_of(group2));
  for (int i = 0; i < n; ++i) {
    const int r = ranks1[i];
    if (r != MPI_PROC_NULL && (r < 0 || r >= group1->size)) {
      return fail(kName, MPI_COMM_WORLD, MPI_ERR_RANK, "rank %d is not in a group of %d", r,
                  group1->size);
    }
    if (r == MPI_PROC_NULL) {
      ranks2[i] = MPI_PROC_NULL;
    } else {
      const std::uint32_t world = group1->members[r];
      ranks2[i] = in_2.has(world) ? in_2.of(world) : MPI_UNDEFINED;
    }
  }
  return MPI_SUCCESS;
}

int group_union(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return combine("MPI_Group_union", unite, group1, group2, newgroup);
}
int group_intersection(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return combine("MPI_Group_intersection", intersect, group1, group2, newgroup);
}
int group_difference(MPI_Group group1, MPI_Group group2, MPI_Group* newgroup) {
  return combine("MPI_Group_difference", subtract, group1, group2, newgroup);
}
int group_incl(MPI_Group group, int n, const int ranks[], MPI_Group* newgroup) {
  return choose("MPI_Group_incl", include, group, n, ranks, newgroup);
}
int group_excl(MPI_Group group, int n, const int ranks[], MPI_Group* newgroup) {
  return choose("MPI_Group_excl", leave_out, group, n, ranks, newgroup);
}
int group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  return choose_ranges("MPI_Group_range_incl", include, group, n, ranges, newgroup);
}
int group_range_excl(MPI_Group group, int n, int ranges[][3], MPI_Group* newgroup) {
  return choose_ranges("MPI_Group_range_excl", leave_out, group, n, ranges, newgroup);
}

int group_free(MPI_Group* group) {
  constexpr const char* kName = "MPI_Group_free";
  require_active(kName);
  if (group == nullptr || !is_group(*group)) return fail_group(kName);
  MPI_Group g = *group;
  if (!g->predefined) {
    forget(&context->groups, g->fortran);
    release(g->members, g->size * sizeof(std::uint32_t));
    g->magic = Magic::kNone;
    destroy(g);
  }
  *group = MPI_GROUP_NULL;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
