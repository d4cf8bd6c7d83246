// A fuzz target is one file that defines the functions declared here; main.cc does the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Parses `data` as input from outside. May return anything; must not crash, hang, or violate a
// condition that it checks with REQUIRE.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rejoin::fuzz {

// Returns well-formed inputs, from which all others are derived.
std::vector<std::string> seeds();
// Returns pieces of text from which inputs are made.
std::vector<std::string> words();

[[noreturn]] void fail(const char* condition, const char* file, int line);
#define REQUIRE(condition) \
  ((condition) ? (void)0 : ::rejoin::fuzz::fail(#condition, __FILE__, __LINE__))

// Returns the number of edges that the instrumented code has reached since the start; 0 if no code
// is instrumented.
extern std::uint64_t places_reached;

}  // namespace rejoin::fuzz
