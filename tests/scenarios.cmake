# add_scenarios(PREFIX LABELS RUNNER ARGUMENTS...): a test for each scenario that RUNNER --list names,
# and one in the long mode for each that sweeps. A line of the list: NAME LIMIT_S SWEEPS LABELS...
# The label "alone" says that no other test may run beside it: it loads the whole machine.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(add_scenarios prefix labels runner)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${runner})
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${runner} --list OUTPUT_VARIABLE listed
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(command Python3::Interpreter ${runner} --ftrun $<TARGET_FILE:ftrun> ${ARGN})
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
    if(sweeps)
      add_test(NAME ${long}.${name} COMMAND ${command} --long ${name})
      set_tests_properties(${long}.${name} PROPERTIES
        LABELS "${labels};long" TIMEOUT 14400 SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()
