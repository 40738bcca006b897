# The compiler of the builds that are made all day: Clang where it is, which instantiates the templates of a precompiled
# header once and not in every file, and so compiles what includes LibTorch in half of GCC's time. $CXX comes first.
if(NOT DEFINED ENV{CXX} AND NOT CMAKE_CXX_COMPILER)
  find_program(FSDP_CLANG NAMES clang++-19 clang++-18 clang++-17 clang++-16)
  if(FSDP_CLANG)
    set(CMAKE_CXX_COMPILER ${FSDP_CLANG})
  endif()
endif()
