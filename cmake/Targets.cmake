# How every target of this project is compiled.

add_library(fsdp_flags INTERFACE)
target_compile_options(fsdp_flags INTERFACE -Wall -Wextra)  # errors in the dev preset
# GCC 12 sees overlapping copies in `"text" + string` where there are none (GCC's bug 105651).
target_compile_options(fsdp_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# GCC warns of googletest's macros after an `if` without braces.
target_compile_options(fsdp_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-dangling-else>)
# Nobody replaces our functions at load time: calls between them are direct and may be inlined, -fPIC or not.
target_compile_options(fsdp_flags INTERFACE -fno-semantic-interposition)
if(FSDP_SANITIZE)  # a finding of any of them ends the process, so that its test fails
  target_compile_options(fsdp_flags INTERFACE -fsanitize=${FSDP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(fsdp_flags INTERFACE -fsanitize=${FSDP_SANITIZE})
endif()

# LibTorch without its own warnings, and with the flags its ABI asks for.
add_library(fsdp_torch INTERFACE)
target_include_directories(fsdp_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(fsdp_torch INTERFACE ${TORCH_LIBRARIES})

# LibTorch is built with GCC 13. Clang has had other names since 18 for templates with conditions, as those of
# `const_data_ptr<T>` are before 2.12, and would not find them.
if(Torch_VERSION VERSION_LESS 2.12 AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 18)
  target_compile_options(fsdp_torch INTERFACE -fclang-abi-compat=17)
endif()

target_include_directories(fsdp_torch SYSTEM INTERFACE ${FSDP_FMT_INCLUDE})
target_compile_definitions(fsdp_torch INTERFACE FMT_HEADER_ONLY)

# Clang would refuse the header of another folder's build for its time, though nothing else differs.
set(no_timestamp $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)

# fsdp_precompile(<name> LIBRARIES <libraries>... HEADERS <headers>...): headers that are compiled once, with the flags of
# this directory, for the targets that fsdp_use_precompiled gives them to.
function(fsdp_precompile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;HEADERS")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "// Carries a precompiled header.\n")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} fsdp_flags)
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  target_compile_options(${name} PRIVATE ${no_timestamp})
  fsdp_name_precompiled(${name} "${arg_HEADERS}")
endfunction()

# LibTorch's headers take most of the time to compile a file, so they are compiled once. The library needs a part of
# them, which takes half as long. Programs take <torch/torch.h>, which has all.
set(standard_headers <fmt/format.h> <filesystem> <map> <optional> <set>)
set(torch_headers <torch/torch.h> ${standard_headers})
fsdp_precompile(fsdp_precompiled LIBRARIES fsdp_torch HEADERS <torch/nn/module.h> <torch/types.h> ${standard_headers})
fsdp_precompile(fsdp_program_precompiled LIBRARIES fsdp_torch HEADERS ${torch_headers})
set_target_properties(fsdp_program_precompiled PROPERTIES EXCLUDE_FROM_ALL ON)

# For a folder of programs: `program_precompiled` is their precompiled header. The dev preset measures nothing: there
# programs are compiled as fast as tests, with the precompiled header and the flags of those.
macro(fsdp_compile_programs)
  set(program_precompiled fsdp_program_precompiled)
  if(CMAKE_BUILD_TYPE STREQUAL "Dev" AND FSDP_BUILD_TESTS AND NOT FSDP_SANITIZE)
    set(CMAKE_CXX_FLAGS_DEV "-O0")
    set(program_precompiled fsdp_test_precompiled)
  endif()
endmacro()

# fsdp_use_precompiled(<target> <name>)
function(fsdp_use_precompiled target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
  # Executables would be compiled with -fPIE, and could not use what was compiled with -fPIC.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# Compiles `target` against LibTorch and with a precompiled header: that of above, or the one that is given.
function(fsdp_use_torch target)
  set(precompiled fsdp_precompiled ${ARGN})
  list(GET precompiled -1 precompiled)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:fsdp_torch> $<BUILD_INTERFACE:fsdp_flags>)
  fsdp_use_precompiled(${target} ${precompiled})
endfunction()
