# Read by ctest: one test for each suite of a GoogleTest executable, named <prefix>.<suite>. Its tests share one process,
# since loading LibTorch takes longer than most of them.
#   executable, prefix, properties: set by fsdp_discover_suites (tests/CMakeLists.txt)
if(NOT EXISTS "${executable}")
  add_test("${prefix}.NOT_BUILT" "${executable}")
  return()
endif()
set(list "${executable}_tests.txt")
if("${executable}" IS_NEWER_THAN "${list}")  # or there is no list
  execute_process(COMMAND "${executable}" --gtest_list_tests OUTPUT_FILE "${list}.new" RESULT_VARIABLE failed TIMEOUT 60)
  if(failed)
    add_test("${prefix}.NOT_LISTED" "${executable}" --gtest_list_tests)  # fails again, and shows why
    return()
  endif()
  file(RENAME "${list}.new" "${list}")
endif()

# A suite is as expensive as it has tests, where ctest has not measured it: the long ones begin first.
file(READ "${list}" lines)
string(REGEX REPLACE " *#[^\n]*" "" lines "${lines}")  # values of parameters
string(REPLACE "\n" ";" lines "${lines}")
set(suites "")
foreach(line ${lines})
  if(line MATCHES "^  ")
    math(EXPR cost_${suite} "${cost_${suite}} + 1")
  elseif(line MATCHES "^([^ ]+)\\.")
    set(suite ${CMAKE_MATCH_1})
    set(cost_${suite} 0)
    list(APPEND suites ${suite})
  endif()
endforeach()
foreach(suite ${suites})
  add_test("${prefix}.${suite}" "${executable}" "--gtest_filter=${suite}.*")
  set_tests_properties("${prefix}.${suite}" PROPERTIES SKIP_RETURN_CODE 77 COST ${cost_${suite}} ${properties})
endforeach()
