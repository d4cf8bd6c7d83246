# Headers that nearly all units of a target include are parsed once for each target instead of once
# for each unit. Every unit still includes what it needs: lint.tidy and builds with a compiler
# launcher compile without precompiled headers, which ccache accepts only with special settings.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
set(REJOIN_STANDARD_HEADERS <algorithm> <array> <atomic> <cstdint> <cstring> <functional> <map>
    <memory> <optional> <string> <string_view> <utility> <variant> <vector>)

# precompile_tests(VARIABLE TARGET HEADERS...): the first TARGET with this VARIABLE precompiles gtest
# and HEADERS, and the others use these precompiled headers.
macro(precompile_tests variable target)
  if(${variable})
    target_precompile_headers(${target} REUSE_FROM ${${variable}})
  else()
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <sstream> ${REJOIN_STANDARD_HEADERS}
                              ${ARGN})
    set(${variable} ${target})
  endif()
endmacro()
