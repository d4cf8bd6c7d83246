#include "launcher/agent/binding_hwloc.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include <vector>

int rejoin_bind_ranks(const char* name, unsigned ranks, cpu_set_t* sets) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return -1;
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return -1;
  }
  // Only what this process may use: a batch system has bound it already.
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_topology_restrict(topology, allowed, 0);
  }
  hwloc_bitmap_free(allowed);
  hwloc_obj_type_t type = HWLOC_OBJ_CORE;
  if (hwloc_type_sscanf(name, &type, nullptr, 0) != 0) {
    hwloc_topology_destroy(topology);
    return -1;
  }
  const int depth = hwloc_get_type_or_below_depth(topology, type);
  const unsigned count = hwloc_get_nbobjs_by_depth(topology, depth);
  for (unsigned i = 0; i < ranks && count > 0; ++i) {
    const hwloc_obj_t object = hwloc_get_obj_by_depth(topology, depth, i % count);
    hwloc_cpuset_to_glibc_sched_affinity(topology, object->cpuset, &sets[i], sizeof sets[i]);
  }
  hwloc_topology_destroy(topology);
  return count > 0 ? 0 : -1;
}
