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
    message(FATAL_ERROR "${executable} --gtest_list_tests ended with ${failed}: its tests cannot be found")
  endif()
  file(RENAME "${list}.new" "${list}")
endif()

file(STRINGS "${list}" suites REGEX "^[^ ]+\\.")
foreach(suite ${suites})
  string(REGEX REPLACE "\\..*" "" suite "${suite}")
  add_test("${prefix}.${suite}" "${executable}" "--gtest_filter=${suite}.*")
  set_tests_properties("${prefix}.${suite}" PROPERTIES SKIP_RETURN_CODE 77 ${properties})
endforeach()
