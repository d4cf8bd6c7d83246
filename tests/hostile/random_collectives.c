// A random program: `random_collectives SEED OPERATIONS MAX_BYTES [MODE]` executes OPERATIONS
// collectives of every kind and exchanges of messages, on communicators that are created and freed
// on the way. The largest buffer of a rank has about MAX_BYTES. The program prints hashes of all
// that was received. Half of the collectives are nonblocking or persistent, and outstanding for
// many steps.
//
// All ranks draw the same random numbers, so that they agree on the next operation. A rank's
// contributions are made from a hash of every byte that it has received: a rank that lost or
// changed one byte sends wrong values from then on. The output is the same under every MPI.
//
// MODE:
//   checksum (default): rank 0 prints one line at the end.
//   lines:    every rank prints a line in every round of 16 operations.
//   rejoin, lazy, pcontrol: as lines, with a checkpoint in every round; the state is in a global
//   and
//             a local model (rejoin_checkpoint), or only in the global one. Under another MPI there
//             are no checkpoints, and the same lines.
//   wrong, stuck: as lines, but a restarted rank prints one wrong bit, or stops making progress,
//   once
//             its replay is complete, to check that this is detected. No other rank and no replay
//             gets the wrong bit, so only a comparison of the output can detect it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <rejoin.h>
#include <unistd.h>

#include "random_operations.h"

enum { kSlots = 6, kKeptSlots = 3, kRound = 16 };
static const int kMostBytes = 1 << 18;  // limit for all operations of most rounds together

typedef enum { kChecksum, kLines, kRejoin, kLazy, kPcontrol, kWrong, kStuck } Mode;
static const char* const kModes[] = {"checksum", "lines", "rejoin", "lazy",
                                     "pcontrol", "wrong", "stuck"};

static Mode mode;
static uint64_t seed;
static Slot slots[kSlots];
static uint64_t random_state;
static int bytes_left;

static uint64_t draw(void) {
  random_state += UINT64_C(0x9e3779b97f4a7c15);
  return hash_step(hash_step(random_state, 1), 2);
}

static int draw_below(int limit) { return (int)(draw() % (uint64_t)limit); }

static int with_checkpoints(void) { return mode >= kRejoin && mode <= kPcontrol; }

// --- Communicators

/** Stores `comm`, which may be MPI_COMM_NULL, in `slot`. */
static void set_slot(Slot* slot, MPI_Comm comm) {
  leave_slot((int)(slot - slots));
  if (slot->comm != MPI_COMM_NULL) OK(MPI_Comm_free(&slot->comm));
  slot->comm = comm;
  if (comm == MPI_COMM_NULL) return;
  OK(MPI_Comm_rank(comm, &slot->rank));
  OK(MPI_Comm_size(comm, &slot->size));
}

/** Creates a communicator of the members of `parent` that the random number selects. */
static MPI_Comm create_from(const Slot* parent, uint64_t random) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  int* chosen = new_ints(parent->size);
  int count = 0;
  for (int r = parent->size - 1; r >= 0; --r) {
    if (hash_step(random, (uint64_t)r) % 3 > 0) chosen[count++] = r;
  }
  OK(MPI_Comm_group(parent->comm, &all));
  OK(MPI_Group_incl(all, count, chosen, &some));
  OK(MPI_Comm_create(parent->comm, some, &comm));
  if (some != MPI_GROUP_EMPTY) OK(MPI_Group_free(&some));
  OK(MPI_Group_free(&all));
  free(chosen);
  return comm;
}

/** Splits by random colors and keys, or pairs neighbours, so that two slots may overlap. */
static MPI_Comm split_from(const Slot* parent, uint64_t random) {
  MPI_Comm comm = MPI_COMM_NULL;
  const uint64_t mine = hash_step(random, (uint64_t)parent->rank);
  const int colors = 1 + (int)(random >> 8 & 1);
  int color = (int)(mine % (uint64_t)(colors + 1));
  if (random >> 16 & 1) color = (parent->rank + (int)(random >> 17 & 1)) / 2;
  OK(MPI_Comm_split(parent->comm, color == 2 && colors == 1 ? MPI_UNDEFINED : color,
                    (int)(mine >> 40 & 7), &comm));
  return comm;
}

/** Replaces the communicator of a slot, `first` or later, by one that is made from another slot's.
 */
static void change_communicators(int first) {
  const int target = first + draw_below(kSlots - first);
  int parent = draw_below(kSlots);
  const int way = draw_below(5);
  const uint64_t random = draw();
  if (parent == target) parent = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  check_context("communicator in slot %d from slot %d, way %d", target, parent, way);
  if (slots[parent].comm != MPI_COMM_NULL) {
    if (way == 0) OK(MPI_Comm_dup(slots[parent].comm, &comm));
    if (way == 1) comm = create_from(&slots[parent], random);
    if (way > 1) comm = split_from(&slots[parent], random);
  }
  set_slot(&slots[target], comm);
}

// --- Operations

/** Executes a function, or begins it in a place that was freed for it. */
static void run(const Function* function, const Step* step, Form form, Place* place) {
  if (function->messages) {
    function->messages(step);
    return;
  }
  Operation blocking;
  Operation* o = form == kBlocking ? &blocking : &place->operation;
  *o =
      (Operation){.collective = function->collective, .form = form, .on = *step->on, .step = *step};
  o->step.on = &o->on;
  call(o);
  if (form == kBlocking) {
    take_result(o);
    release(o);
    return;
  }
  place->mine = 1;
  if (form == kPersistent && !only_blocking) OK(MPI_Start(&o->request));
}

/** Handles the persistent collectives in this step. Returns true if that was the step. */
static int run_persistent(int place, int choice) {
  if (choice == 0) begin_again(0, kMostOutstanding);
  if (places[place].form != kPersistent || choice > 12) return choice == 0;
  if (choice > 0) begin_again(place, place + 1);
  return 1;
}

/** Executes a function on a random slot. Draws the same numbers at ranks that are not in it. */
static void run_step(int number, int max_bytes) {
  const Slot* slot = &slots[draw_below(3) == 0 ? 0 : draw_below(kSlots)];
  const Function* function = &kFunctions[draw_below(kFunctionCount)];
  const Kind* kind = &kinds[draw_below(kKindCount)];
  const Fold* fold = &folds[draw_below(kFoldCount)];
  int bits = 0;
  while (bits < 30 && 1 << (bits + 1) <= max_bytes) ++bits;
  const int size = 1 << draw_below(bits + 1), other = 1 << draw_below(bits + 1);
  int bytes = (size < other ? size : other) + draw_below(1 << draw_below(bits + 1)) % size;
  if (bytes > max_bytes) bytes = max_bytes;
  if (bytes > bytes_left) bytes %= 1024;
  bytes_left -= bytes;
  const int root = draw_below(1 << 20), in_place = draw_below(3) == 0;
  const int form_number = draw_below(4), place_number = draw_below(kMostOutstanding);
  const Form form = form_number < 2 || function->messages ? kBlocking : (Form)(form_number - 1);
  const int again = draw_below(16);
  const uint64_t random = draw();
  Place* place = &places[place_number];
  check_context("step %d: %s of %d bytes, form %d", number, function->name, bytes, (int)form);
  if (form == kPersistent && run_persistent(place_number, again)) return;
  if (form != kBlocking) {
    clear_place(place);
    place->form = form;
    place->slot = (int)(slot - slots);
  }
  if (slot->comm == MPI_COMM_NULL) return;
  const Step step = {slot, kind, fold, random, bytes, root % slot->size, in_place};
  run(function, &step, form, place);
  history = hash_step(history, (uint64_t)number);
}

static void run_round(int round, int operations, int max_bytes) {
  random_state = hash_step(seed, (uint64_t)round + 1);
  bytes_left = round % 8 == 3 && max_bytes > kMostBytes ? max_bytes : kMostBytes;
  const int last = operations < (round + 1) * kRound ? operations : (round + 1) * kRound;
  const int first_slot = with_checkpoints() ? kKeptSlots : 1;
  for (int number = round * kRound; number < last; ++number) {
    if (draw_below(round == 0 ? 2 : 12) == 0) change_communicators(first_slot);
    run_step(number, max_bytes);
    check_context("between steps %d and %d", number, number + 1);
    complete_between(hash_step(draw(), (uint64_t)check_state.rank));
  }
}

// --- Checkpoints

static uint64_t* model;  // words: the version, every rank's history, padding
static uint64_t local_model[2048];

/** Returns the number of words in the models of a version; always the same where MPI_Pcontrol must
 * load them. */
static size_t model_words(uint64_t version) {
  const uint64_t random = hash_step(seed, mode == kPcontrol ? 99 : version + 100);
  return 1 + (size_t)check_state.size + (size_t)(random % (1 << random % 13));
}

static size_t local_words(uint64_t version) {
  return 2 + hash_step(version, (uint64_t)check_state.rank) % 2046;
}

static void fill_behind(uint64_t* words, size_t from, size_t count) {
  for (size_t i = from; i < count; ++i) words[i] = hash_step(words[i - 1], i);
}

static void check_behind(const char* what, const uint64_t* words, size_t from, size_t count) {
  for (size_t i = from; i < count; ++i) {
    if (words[i] != hash_step(words[i - 1], i)) check_fail(what, "what was given", "another");
  }
}

static void serialize(void* from, rejoin_stream* to) {
  __typeof__(rejoin_write)* write = dlsym(RTLD_DEFAULT, "rejoin_write");
  const size_t words = model_words(((uint64_t*)from)[0]);
  write(to, from, 8);
  write(to, (char*)from + 8, words * 8 - 8);
}

/** Returns the version at which the program goes on, and sets this rank's history to its value
 * then. */
static int load(void) {
  const void* found = NULL;
  const void* mine = NULL;
  size_t found_bytes = 0, mine_bytes = 0;
  int version = 0;
  if (mode == kPcontrol) {
    found_bytes = model_words(0) * 8;
    MPI_Pcontrol(REJOIN_PCONTROL_LOAD, &version, model, found_bytes);
  } else {
    __typeof__(rejoin_load)* load_models = dlsym(RTLD_DEFAULT, "rejoin_load");
    if (load_models) version = load_models(&found, &found_bytes, &mine, &mine_bytes);
    if (found) memcpy(model, found, found_bytes);
    if (mine) memcpy(local_model, mine, mine_bytes);
  }
  if (version <= 0) return version;
  check_context("models of version %d", version);
  check_i64("version", version, (long long)model[0]);
  check_i64("size", (long long)model_words(model[0]) * 8, (long long)found_bytes);
  check_behind("global model", model, 1 + (size_t)check_state.size, model_words(model[0]));
  history = model[1 + check_state.rank];
  if (mode != kRejoin) return version;
  check_i64("local size", (long long)local_words(model[0]) * 8, (long long)mine_bytes);
  check_i64("owner", check_state.rank, (long long)local_model[0]);
  check_i64("local history", (long long)history, (long long)local_model[1]);
  check_behind("local model", local_model, 2, local_words(model[0]));
  return version;
}

static void checkpoint(int version) {
  clear_places();
  for (int i = kKeptSlots; i < kSlots; ++i) set_slot(&slots[i], MPI_COMM_NULL);
  model[0] = (uint64_t)version;
  check_context("histories of version %d", version);
  OK(MPI_Allgather(&history, 1, MPI_UINT64_T, model + 1, 1, MPI_UINT64_T, MPI_COMM_WORLD));
  const size_t words = model_words(model[0]);
  fill_behind(model, 1 + (size_t)check_state.size, words);
  local_model[0] = (uint64_t)check_state.rank;
  local_model[1] = history;
  fill_behind(local_model, 2, local_words(model[0]));
  int made = version;
  if (mode == kPcontrol) MPI_Pcontrol(REJOIN_PCONTROL_CHECKPOINT, model, words * 8);
  if (mode == kLazy) {
    __typeof__(rejoin_checkpoint_lazy)* write = dlsym(RTLD_DEFAULT, "rejoin_checkpoint_lazy");
    if (write) made = write(serialize, model);
  }
  if (mode == kRejoin) {
    __typeof__(rejoin_checkpoint)* write = dlsym(RTLD_DEFAULT, "rejoin_checkpoint");
    if (write) made = write(model, words * 8, local_model, local_words(model[0]) * 8);
  }
  check_i64("version", version, made);
}

/** The marked set-up that every incarnation executes after its load. */
static void prepare(void) {
  int columns = 3 * (check_state.rank + 1), most = 0;
  check_context("bootstrap");
  MPI_Pcontrol(REJOIN_PCONTROL_BOOTSTRAP, "columns");
  OK(MPI_Allreduce(&columns, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  check_i64("columns", 3 * check_state.size, most);
}

/** Implements the modes that fail on purpose. `printed`: the hash that is about to be printed. */
static void misbehave(uint64_t* printed) {
  __typeof__(rejoin_incarnation)* incarnation = dlsym(RTLD_DEFAULT, "rejoin_incarnation");
  __typeof__(rejoin_replaying)* replaying = dlsym(RTLD_DEFAULT, "rejoin_replaying");
  if (!incarnation || !replaying || incarnation() == 0 || replaying()) return;
  if (mode == kWrong) *printed ^= 1;
  while (mode == kStuck) pause();
}

// --- Main

static void usage(void) {
  if (check_state.rank == 0) {
    fprintf(stderr, "usage: random_collectives [SEED [OPERATIONS [MAX_BYTES [MODE]]]]\n");
  }
  MPI_Finalize();
  exit(2);
}

static int argument(int argc, char** argv, int index, int standard, int least) {
  if (index >= argc) return standard;
  char* end = NULL;
  const long value = strtol(argv[index], &end, 10);
  if (*end != '\0' || value < least || value > 1 << 30) usage();
  return (int)value;
}

static Mode mode_argument(int argc, char** argv) {
  if (argc <= 4) return kChecksum;
  for (Mode m = kChecksum; m <= kStuck; ++m) {
    if (strcmp(argv[4], kModes[m]) == 0) return m;
  }
  usage();
  return kChecksum;
}

/** Creates, before the load, the communicators that live as long as the program. */
static int begin(void) {
  if (!with_checkpoints()) return 0;
  model = calloc(1 + (size_t)check_state.size + 8192, 8);
  if (model == NULL) check_fail("memory", "some", "none");
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &slots[1].comm));
  slots[1].rank = check_state.rank;
  slots[1].size = check_state.size;
  set_slot(&slots[2], split_from(&slots[1], draw()));
  const int version = load();
  prepare();
  return version;
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  seed = (uint64_t)argument(argc, argv, 1, 1, 0);
  const int operations = argument(argc, argv, 2, 500, 0);
  const int max_bytes = argument(argc, argv, 3, 4096, 1);
  mode = mode_argument(argc, argv);
  only_blocking = dlsym(RTLD_DEFAULT, "rejoin_incarnation") == NULL;
  random_state = seed;
  history = hash_step(seed, (uint64_t)check_state.rank);
  make_types_and_ops();
  for (int i = 0; i < kSlots; ++i) slots[i].comm = MPI_COMM_NULL;
  slots[0] = (Slot){MPI_COMM_WORLD, check_state.rank, check_state.size};
  for (int round = begin(); round * kRound < operations; ++round) {
    run_round(round, operations, max_bytes);
    uint64_t printed = history;
    if (mode >= kWrong) misbehave(&printed);
    if (mode != kChecksum) {
      printf("rank %d, round %d: %016llx\n", check_state.rank, round, (unsigned long long)printed);
      fflush(stdout);
    }
    if (with_checkpoints()) checkpoint(round + 1);
  }
  check_context("end");
  clear_places();
  for (int i = 1; i < kSlots; ++i) set_slot(&slots[i], MPI_COMM_NULL);
  free(model);
  check_context("checksum");
  unsigned long long mine = hash_step(history, (uint64_t)check_state.rank), all = 0;
  OK(MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
  note("checksum %016llx", all);
  free_types_and_ops();
  OK(MPI_Finalize());
  return 0;
}
