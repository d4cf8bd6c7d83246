// A fuzz target is one file that defines what is declared here; main.cc does the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Reads `data` as something that came from outside. May return anything; must not crash, hang, or
// break a promise that it checks with REQUIRE.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rejoin::fuzz {

// Well-formed inputs, from which all others are made.
std::vector<std::string> seeds();
// Pieces of text that inputs are made of.
std::vector<std::string> words();

[[noreturn]] void fail(const char* condition, const char* file, int line);
#define REQUIRE(condition) \
  ((condition) ? (void)0 : ::rejoin::fuzz::fail(#condition, __FILE__, __LINE__))

// Edges that the instrumented code has gone over since the start; 0 if none is instrumented.
extern std::uint64_t places_reached;

}  // namespace rejoin::fuzz
