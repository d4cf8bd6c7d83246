# add_scenarios(PREFIX LABELS RUNNER ARGUMENTS...): a test for each scenario that RUNNER --list names,
# and one in the long mode for each that sweeps. A line of the list: NAME LIMIT_S SWEEPS LABELS...
# The label "alone" says that no other test may run beside it: it loads the whole machine. "threads":
# its ranks have threads that compute or spin, or relays, so only one other such test runs beside it.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# Hundreds of tests run the same modules, which are compiled once, away from the source directory; they
# need nothing but the standard library (-S).
# A version manager's python3 is a shell script, which takes longer than the interpreter.
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE python
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(python_test ${python} -S -X pycache_prefix=${CMAKE_BINARY_DIR}/pycache)

function(add_scenarios prefix labels runner)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${runner})
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${runner} --list OUTPUT_VARIABLE listed
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(command ${python_test} ${runner} --ftrun $<TARGET_FILE:ftrun> ${ARGN})
  string(REGEX REPLACE "^([a-z]+)" "\\1.long" long ${prefix})
  string(REPLACE "\n" ";" listed "${listed}")
  foreach(line IN LISTS listed)
    string(REPLACE " " ";" words "${line}")
    list(POP_FRONT words name limit_s sweeps)
    add_test(NAME ${prefix}.${name} COMMAND ${command} ${name})
    set_tests_properties(${prefix}.${name} PROPERTIES
      LABELS "${labels};${words}" TIMEOUT ${limit_s} SKIP_RETURN_CODE 77)
    if("alone" IN_LIST words)
      set_tests_properties(${prefix}.${name} PROPERTIES RUN_SERIAL ON)
    endif()
    if("threads" IN_LIST words)
      set_tests_properties(${prefix}.${name} PROPERTIES PROCESSORS 2)
    endif()
    if(sweeps)
      add_test(NAME ${long}.${name} COMMAND ${command} --long ${name})
      set_tests_properties(${long}.${name} PROPERTIES
        LABELS "${labels};long" TIMEOUT 14400 SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()
