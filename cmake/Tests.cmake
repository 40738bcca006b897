# How tests reach ctest.

# Runs a test, and notes its times where they are wanted (tools/test_times.py).
find_package(Python3 QUIET COMPONENTS Interpreter)
set(fsdp_test_runner "")
if(Python3_FOUND AND NOT FSDP_SANITIZE)  # whose runtime wants to be loaded first
  add_library(count_processes MODULE ${PROJECT_SOURCE_DIR}/tests/support/count_processes.cpp)
  set(fsdp_test_runner ${Python3_EXECUTABLE} -S -E ${PROJECT_SOURCE_DIR}/tools/test_times.py test $<TARGET_FILE:count_processes>)
endif()

# fsdp_add_test(<name> [DRAWN] [FOLDER <working directory>] COMMAND <command>...). One commit in eight runs a test that is
# DRAWN: its label is drawn-<number>, which scripts/test compares with that of the commit.
function(fsdp_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "DRAWN" "FOLDER" "COMMAND")
  set(runner "")
  if(fsdp_test_runner)
    set(runner ${fsdp_test_runner} ${name})
  endif()
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  add_test(NAME ${name} COMMAND ${runner} ${arg_COMMAND} WORKING_DIRECTORY ${arg_FOLDER} COMMAND_EXPAND_LISTS)
  if(arg_DRAWN)
    get_property(number GLOBAL PROPERTY fsdp_drawn_tests)
    math(EXPR next "(0${number} + 1) % 8")
    set_property(GLOBAL PROPERTY fsdp_drawn_tests ${next})
    set_tests_properties(${name} PROPERTIES LABELS drawn-${next})
  endif()
endfunction()

# fsdp_discover_tests(<program> <suite or case> <timeout> <properties>...): its tests for ctest, one for each suite or one
# for each case. Their names begin with their room, or with `fsdp_test_prefix`. One commit in eight runs the suites that
# are named in `fsdp_drawn_suites`, each as <room>.<suite>, and a quarter of the cases of those in
# `fsdp_quartered_suites`. Sanitizers take several times as long.
function(fsdp_discover_tests program each timeout)
  if(FSDP_SANITIZE)
    math(EXPR timeout "${timeout} * 5")
  endif()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${program}_add)
  file(GENERATE OUTPUT ${file}.cmake CONTENT "set(program \"$<TARGET_FILE:${program}>\")
set(each ${each})
set(prefix \"${fsdp_test_prefix}\")
set(drawn \"${fsdp_drawn_suites}\")
set(quartered \"${fsdp_quartered_suites}\")
set(runner \"${fsdp_test_runner}\")
set(properties TIMEOUT ${timeout} ${ARGN})
include(${PROJECT_SOURCE_DIR}/cmake/AddTests.cmake)
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file}.cmake)
endfunction()
