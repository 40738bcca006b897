# Everything that is not ours. What is required stops the configuration; what is optional switches a part off, and says
# so.

# Found for the project that adds this one, too: it links what the library links.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# LibTorch with CUDA: its own CMake files ask for the CUDA toolkit with its compiler, unless this target is there. What
# compiles no kernels needs the headers alone, which Cuda.cmake finds.
if(NOT TARGET torch::cudart)
  add_library(torch::cudart INTERFACE IMPORTED GLOBAL)
endif()

# LibTorch: the user's own through CMAKE_PREFIX_PATH, otherwise the one that scripts/setup put into .venv.
find_package(Torch QUIET)
if(NOT Torch_FOUND)
  file(GLOB torch_prefix "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake")
  list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
  find_package(Torch QUIET)
endif()
if(NOT Torch_FOUND)
  message(FATAL_ERROR "LibTorch was not found. Run scripts/setup, or pass -DCMAKE_PREFIX_PATH=<your libtorch>.")
endif()
message(STATUS "LibTorch ${Torch_VERSION}: ${TORCH_INSTALL_PREFIX}")
# The versions that src/interpose/libtorch_versions.h knows and scripts/matrix tries.
option(FSDP_ANY_LIBTORCH "Try a LibTorch of another version than 2.11 to 2.15" OFF)
if(NOT FSDP_ANY_LIBTORCH AND (Torch_VERSION VERSION_LESS 2.11 OR Torch_VERSION VERSION_GREATER_EQUAL 2.16))
  message(FATAL_ERROR "Found LibTorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}, expected 2.11 to 2.15: the library uses "
                      "internals of LibTorch, which differ between versions. Install one of these (scripts/setup does), "
                      "or try this one: -DFSDP_ANY_LIBTORCH=ON.")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/Cuda.cmake)

if(NOT TARGET nlohmann_json::nlohmann_json)  # another project may have brought it
  find_package(nlohmann_json 3.10 REQUIRED)
endif()

# fmt, headers only: Debian's where it is, otherwise the copy that LibTorch ships.
find_path(FSDP_FMT_INCLUDE fmt/format.h PATHS ${TORCH_INSTALL_PREFIX}/include REQUIRED)

# xxHash, headers only: it is compiled into the library.
find_path(FSDP_XXHASH_INCLUDE xxhash.h REQUIRED)

# OpenSSL's libcrypto: what the ranks of a job know each other by.
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# Gloo: the headers alone. The library itself is inside LibTorch.
find_path(FSDP_GLOO_INCLUDE gloo/algorithm.h)
if(FSDP_GLOO_INCLUDE)
  set(FSDP_WITH_GLOO ON)
else()
  set(FSDP_WITH_GLOO OFF)
  message(STATUS "Gloo headers were not found (Debian: libgloo-dev): built without the gloo backend, for ranks of one host only")
endif()

# fsdp_optional(<option> <package> <Debian package>): switches the option off where the package is missing.
macro(fsdp_optional option package debian)
  if(${option})
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      message(STATUS "${package} was not found (Debian: ${debian}): ${option} is switched off")
      set(${option} OFF)
    endif()
  endif()
endmacro()
fsdp_optional(FSDP_BUILD_APPS CLI11 libcli11-dev)
fsdp_optional(FSDP_BUILD_APPS tomlplusplus libtomlplusplus-dev)
fsdp_optional(FSDP_BUILD_TESTS GTest "libgtest-dev libgmock-dev")
fsdp_optional(FSDP_BUILD_BENCHMARKS benchmark libbenchmark-dev)

# sentencepiece, for the trainer. Its module is loaded with RTLD_DEEPBIND (apps/tokenizers/sentencepiece_module.h), which
# the sanitizers refuse.
set(FSDP_WITH_SENTENCEPIECE OFF)
if(FSDP_BUILD_APPS AND FSDP_SANITIZE)
  message(STATUS "fsdp-train is built without sentencepiece under sanitizers")
elseif(FSDP_BUILD_APPS)
  find_path(FSDP_SENTENCEPIECE_INCLUDE sentencepiece_trainer.h)
  find_library(FSDP_SENTENCEPIECE sentencepiece)
  find_library(FSDP_SENTENCEPIECE_TRAINER sentencepiece_train)
  if(FSDP_SENTENCEPIECE_INCLUDE AND FSDP_SENTENCEPIECE AND FSDP_SENTENCEPIECE_TRAINER)
    set(FSDP_WITH_SENTENCEPIECE ON)
  else()
    message(STATUS "sentencepiece was not found (Debian: libsentencepiece-dev): fsdp-train is built for bytes as tokens only")
  endif()
endif()

# A compiler launcher of the user's own stays; inside another project that project chooses.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE ccache)
endif()
if(CCACHE)
  # Precompiled headers need these liberties: https://ccache.dev/manual/latest.html#_precompiled_headers
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_PCH_EXTSUM=1 ${CCACHE})
endif()

# fsdp_name_precompiled(<target> <headers>): text that ccache takes in place of a precompiled header's bytes, which differ
# in each build: so it serves a fresh folder too. It names what the header is made from, as far as the command line of a
# compilation does not.
function(fsdp_name_precompiled target headers)
  if(NOT CCACHE)
    return()
  endif()
  file(GLOB version_files ${TORCH_INSTALL_PREFIX}/version.py ${TORCH_INSTALL_PREFIX}/build-version)
  set(sum "${headers} LibTorch ${Torch_VERSION} ${TORCH_INSTALL_PREFIX} fmt ${FSDP_FMT_INCLUDE} GoogleTest ${GTest_VERSION}\n")
  foreach(version_file ${version_files})
    file(SHA256 ${version_file} version_sum)
    string(APPEND sum "${version_sum}\n")
  endforeach()
  foreach(suffix gch pch)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.${suffix}.sum "${sum}")
  endforeach()
endfunction()
