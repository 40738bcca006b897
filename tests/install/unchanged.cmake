# In a project that adds this one as a folder: what it has set stays as it is, and of the targets it has those of the
# library.
set(settings CMAKE_BUILD_TYPE CMAKE_CXX_STANDARD CMAKE_CXX_STANDARD_REQUIRED CMAKE_CXX_EXTENSIONS CMAKE_CXX_FLAGS
             CMAKE_CXX_COMPILER_LAUNCHER CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_FIND_PACKAGE_TARGETS_GLOBAL
             CMAKE_MODULE_PATH CMAKE_POSITION_INDEPENDENT_CODE CMAKE_PREFIX_PATH CMAKE_UNITY_BUILD BUILD_SHARED_LIBS
             BUILD_TESTING)
foreach(setting IN LISTS settings)
  set(before_${setting} "${${setting}}")
endforeach()

function(check_unchanged)
  foreach(setting IN LISTS settings)
    if(NOT "${${setting}}" STREQUAL "${before_${setting}}")
      message(FATAL_ERROR "${setting} was '${before_${setting}}' and is '${${setting}}'")
    endif()
  endforeach()
  foreach(target fsdp-train fsdp-convert fsdp-plan fsdp-calibrate fsdp_apps minimal fsdp_test_support bench_collectives)
    if(TARGET ${target})
      message(FATAL_ERROR "there is a target ${target}, which nobody asked for")
    endif()
  endforeach()
  find_package(Torch REQUIRED)  # once more, as a project does that uses it itself
endfunction()
cmake_language(DEFER CALL check_unchanged)
