// Seeds and clocks of C++ programs.
#include <chrono>
#include <fstream>
#include <random>

#include "scene.h"

static void play_cxx() {
  for (int i = 0; i < 3; ++i) {
    std::random_device device;
    std::mt19937_64 generator(device());
    const std::uint64_t number = generator();
    SAME(number);
    std::ifstream urandom("/dev/urandom", std::ios::binary);
    REQUIRE(urandom.good());
    char bytes[16];
    urandom.read(bytes, sizeof bytes);
    REQUIRE(urandom.gcount() == sizeof bytes);
    SAME(bytes);
    const auto wall = std::chrono::system_clock::now().time_since_epoch().count();
    const auto steady = std::chrono::steady_clock::now().time_since_epoch().count();
    SAME(wall);
    SAME(steady);
    REQUIRE(!std::ifstream("missing").good());
    std::ofstream("log", std::ios::app) << "line " << i << "\n";
    step();
  }
  std::ofstream("missing") << "made\n";
  step();
}

static const struct scene scenes[] = {{"cxx", play_cxx, 4}, {nullptr, nullptr, 0}};

int main(int argc, char** argv) { return play_scene(argc, argv, scenes); }
