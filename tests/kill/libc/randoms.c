// Random bytes from every source are the same in a replay.
#define _GNU_SOURCE
#include <sys/random.h>

#include "scene.h"

static void draw(void) {
  unsigned char bytes[3000];
  REQUIRE(getrandom(bytes, 100, 0) == 100);
  same_bytes(__FILE__, __LINE__, bytes, 100);
  REQUIRE(getentropy(bytes, 256) == 0);
  same_bytes(__FILE__, __LINE__, bytes, 256);
  REQUIRE_ERRNO(getentropy(bytes, 257) == 0, EIO);
  REQUIRE_ERRNO(getrandom(bytes, 1, ~0u) >= 0, EINVAL);
  const uint32_t one = arc4random(), below = arc4random_uniform(1000);
  SAME(one);
  SAME(below);
  REQUIRE(below < 1000);
  arc4random_buf(bytes, sizeof bytes);
  SAME(bytes);
}

static void play_calls(void) {
  for (int i = 0; i < 3; ++i) {
    draw();
    step();
  }
}

static void play_device(void) {
  unsigned char bytes[64];
  const int fd = open("/dev/urandom", O_RDONLY);
  REQUIRE(fd >= 0);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(read(fd, bytes, sizeof bytes) == sizeof bytes);
    SAME(bytes);
    step();
  }
  REQUIRE(close(fd) == 0);
  // A file that gets the descriptor's number is not treated as a source of random bytes.
  const int other = open("plain", O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(other == fd && pwrite(other, "plain", 5, 0) == 5);
  REQUIRE(read(other, bytes, sizeof bytes) == 5 && memcmp(bytes, "plain", 5) == 0);
  close(other);
  step();
}

static void play_stream(void) {
  unsigned seed[2];
  FILE* f = fopen("/dev/urandom", "rb");
  REQUIRE(f != NULL);
  REQUIRE(fread(seed, sizeof seed, 1, f) == 1);
  SAME(seed);
  const int letter = fgetc(f);
  SAME(letter);
  step();
  REQUIRE(read(fileno(f), seed, sizeof seed) == sizeof seed);
  SAME(seed);
  REQUIRE(fclose(f) == 0);
  step();
  REQUIRE((f = fopen("/dev/random", "r")) != NULL);
  REQUIRE(fread(seed, 1, sizeof seed, f) == sizeof seed);
  SAME(seed);
  REQUIRE(fclose(f) == 0);
  step();
}

static const struct scene scenes[] = {{"calls", play_calls, 3},
                                      {"device", play_device, 4},
                                      {"stream", play_stream, 3},
                                      {NULL, NULL, 0}};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
