// sides [ROUNDS]: two groups communicate over an intercommunicator, which each round makes anew:
// messages from any source, collectives, several of them outstanding at once, a duplicate, a part
// of it, and the union of both groups.

#include "program.h"

typedef struct {
  MPI_Comm local;
  int first;  // whether this rank's group has world rank 0
  int me;     // this rank's number in its group
  int own;    // the number of ranks in its group
  int peers;  // the number of ranks in the other group
} Side;

/** These return the world rank of rank `i` of this rank's group, and of the other group. */
static int own_world(const Side* s, int i) { return s->first ? i : s->peers + i; }
static int peer_world(const Side* s, int i) { return s->first ? s->own + i : i; }

static Side make_side(void) {
  Side s;
  const int first = (check_state.size + 1) / 2;
  s.first = check_state.rank < first;
  s.own = s.first ? first : check_state.size - first;
  s.peers = check_state.size - s.own;
  s.me = s.first ? check_state.rank : check_state.rank - first;
  OK(MPI_Comm_split(MPI_COMM_WORLD, s.first, check_state.rank, &s.local));
  return s;
}

/** Every rank sends to all ranks of the other group, and receives from any source. */
static void exchange(const Side* s, MPI_Comm inter, int step) {
  uint64_t mine = element(check_state.rank, step, 0);
  int* seen = new_ints(s->peers);
  for (int i = 0; i < s->peers; ++i) OK(MPI_Send(&mine, 1, MPI_UINT64_T, i, step, inter));
  for (int i = 0; i < s->peers; ++i) {
    uint64_t got = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&got, 1, MPI_UINT64_T, MPI_ANY_SOURCE, step, inter, &request));
    int flag = 0;
    while (!flag && MPI_Test(&request, &flag, &status) == MPI_SUCCESS) {
    }
    check_i64("received", 1, flag);
    check_true("a rank of the other group", status.MPI_SOURCE >= 0 && status.MPI_SOURCE < s->peers);
    check_true("message", got == element(peer_world(s, status.MPI_SOURCE), step, 0));
    seen[status.MPI_SOURCE]++;
  }
  for (int i = 0; i < s->peers; ++i) check_i64("one of each", 1, seen[i]);
  free(seen);
}

static void collectives(const Side* s, MPI_Comm inter, int step) {
  uint64_t values[600];
  const int root = step % s->own;
  const int peer_root = step % s->peers;
  const int argument = s->first ? (s->me == root ? MPI_ROOT : MPI_PROC_NULL) : peer_root;
  const int from = s->first ? own_world(s, root) : peer_world(s, peer_root);
  for (int i = 0; i < 600; ++i) values[i] = argument == MPI_ROOT ? element(from, step, i) : 0;
  OK(MPI_Bcast(values, 600, MPI_UINT64_T, argument, inter));
  for (int i = 0; argument != MPI_PROC_NULL && i < 600; ++i) {
    check_u64("broadcast", element(from, step, i), values[i]);
  }
  uint64_t mine = element(check_state.rank, step, 1);
  uint64_t sum = 0;
  uint64_t expected = 0;
  for (int i = 0; i < s->peers; ++i) expected += element(peer_world(s, i), step, 1);
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, inter));
  check_u64("sum of the others", expected, sum);
}

/** Several collectives and a message are outstanding on an intercommunicator and its duplicate. */
static void outstanding(const Side* s, MPI_Comm inter, MPI_Comm copy, int step) {
  enum { kRequests = 6, kLong = 700 };
  static uint64_t in[kLong], out[kLong];
  uint64_t mine = element(check_state.rank, step, 3);
  uint64_t from_all[64], parts[64], got[64], told = 0, sent = mine + 1, received = 0;
  MPI_Request requests[kRequests];
  const int root = step % s->own;
  const int peer_root = step % s->peers;
  const int argument = s->first ? peer_root : (s->me == root ? MPI_ROOT : MPI_PROC_NULL);
  const int partner = s->me < s->peers ? s->me : MPI_PROC_NULL;
  for (int i = 0; i < kLong; ++i) in[i] = element(check_state.rank, step, 10 + i);
  for (int i = 0; i < s->peers; ++i) parts[i] = element(check_state.rank, step, peer_world(s, i));
  if (argument == MPI_ROOT) told = mine;
  OK(MPI_Iallreduce(in, out, kLong, MPI_UINT64_T, MPI_SUM, inter, &requests[0]));
  OK(MPI_Ibcast(&told, 1, MPI_UINT64_T, argument, copy, &requests[1]));
  OK(MPI_Iallgather(&mine, 1, MPI_UINT64_T, from_all, 1, MPI_UINT64_T, inter, &requests[2]));
  OK(MPI_Irecv(&received, 1, MPI_UINT64_T, partner, step, inter, &requests[3]));
  OK(MPI_Ialltoall(parts, 1, MPI_UINT64_T, got, 1, MPI_UINT64_T, copy, &requests[4]));
  OK(MPI_Ibarrier(inter, &requests[5]));
  OK(MPI_Send(&sent, 1, MPI_UINT64_T, partner, step, inter));
  if (step % 2 == 0) {
    for (int i = kRequests; i-- > 0;) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
  } else {
    for (int over = 0; !over;) {
      if (MPI_Testall(kRequests, requests, &over, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
        check_fail("MPI_Testall", "success", "an error");
    }
  }
  for (int k = 0; k < kLong; ++k) {
    uint64_t expected = 0;
    for (int i = 0; i < s->peers; ++i) expected += element(peer_world(s, i), step, 10 + k);
    check_u64("sum", expected, out[k]);
  }
  const int from = s->first ? peer_world(s, peer_root) : own_world(s, root);
  if (argument != MPI_PROC_NULL) check_u64("told", element(from, step, 3), told);
  for (int i = 0; i < s->peers; ++i) {
    check_u64("of all", element(peer_world(s, i), step, 3), from_all[i]);
    check_u64("part", element(peer_world(s, i), step, check_state.rank), got[i]);
  }
  if (partner != MPI_PROC_NULL) {
    check_u64("message", element(peer_world(s, partner), step, 3) + 1, received);
  }
}

static void use_union(const Side* s, MPI_Comm inter, int step) {
  MPI_Comm all = MPI_COMM_NULL;
  int rank = -1;
  OK(MPI_Intercomm_merge(inter, s->first == (step % 2), &all));
  OK(MPI_Comm_rank(all, &rank));
  check_i64("rank in the union", s->first == (step % 2) ? s->peers + s->me : s->me, rank);
  uint64_t mine = element(check_state.rank, step, 2);
  uint64_t sum = 0;
  uint64_t expected = 0;
  for (int i = 0; i < check_state.size; ++i) expected += element(i, step, 2);
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, all));
  check_u64("sum of all", expected, sum);
  OK(MPI_Comm_free(&all));
  received_by_all(sum);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 3;
  const Side s = make_side();
  for (int round = 0; round < rounds; ++round) {
    check_context("round %d", round);
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm part = MPI_COMM_NULL;
    OK(MPI_Intercomm_create(s.local, round % s.own, MPI_COMM_WORLD, peer_world(&s, round % s.peers),
                            round % 2, &inter));
    exchange(&s, inter, round);
    if (round % 2 == 0) {
      OK(MPI_Comm_dup(inter, &copy));
    } else {
      MPI_Request request;
      OK(MPI_Comm_idup(inter, &copy, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    exchange(&s, copy, round);
    collectives(&s, inter, round);
    outstanding(&s, inter, copy, round);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_split(copy, s.me == 0 ? 0 : MPI_UNDEFINED, 0, &part));
    if (part != MPI_COMM_NULL) {
      OK(MPI_Barrier(part));
      OK(MPI_Comm_free(&part));
    }
    use_union(&s, copy, round);
    OK(MPI_Comm_free(&copy));
  }
  MPI_Comm local = s.local;
  OK(MPI_Comm_free(&local));
  return check_end();
}
