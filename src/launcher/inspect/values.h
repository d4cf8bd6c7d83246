// Prints elements of a result as numbers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/kernels.h"

namespace rejoin::launcher {

// Returns the first elements of `bytes`, at most `most`: "1.5 2 -7 ..."; pairs of MINLOC and MAXLOC
// as "7@3", complex numbers as "(1,-2)". Empty: such elements cannot be printed.
std::string elements_text(engine::Element element, std::string_view bytes, std::size_t most);

// "double", "complex double", "double and int"; "" for kNone.
const char* name_of(engine::Element element);
// "sum"; "" for kNull.
const char* name_of(engine::Operator operation);

}  // namespace rejoin::launcher
