# Packages for machines without LibTorch: an archive to unpack anywhere, and a .deb. They have the programs and the shared
# libraries that these need, but for those of C and C++. scripts/package makes them.

# The component fsdp-runtime adds the libraries to installed programs. Alone, `cmake --install` leaves it out.
find_file(FSDP_JSON_HEADER nlohmann/json.hpp)
find_file(FSDP_CLI11_HEADER CLI/CLI.hpp)
install(CODE "
  set(programs \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})
  set(libraries \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/fsdp)
  set(documents \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/fsdp-train)
  set(rpath \"${fsdp_rpath}:${TORCH_INSTALL_PREFIX}/lib\")
  set(package_rpath \"${fsdp_rpath}\")
  set(torch \"${TORCH_INSTALL_PREFIX}\")
  set(headers \"${FSDP_FMT_INCLUDE}/fmt/format.h\" \"${FSDP_XXHASH_INCLUDE}/xxhash.h\" \"${FSDP_JSON_HEADER}\"
      \"${FSDP_CLI11_HEADER}\")
  set(source \"${PROJECT_SOURCE_DIR}\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/InstallRuntime.cmake\")" COMPONENT fsdp-runtime EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME fsdp-train)
set(CPACK_PACKAGE_VENDOR "the libfsdp authors")
set(CPACK_PACKAGE_CONTACT "the libfsdp authors <libfsdp@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Train GPT-2 and Llama models on several processes")
set(CPACK_PACKAGE_DESCRIPTION "fsdp-train, fsdp-convert and fsdp-plan, with the LibTorch for CPUs that they run on.")
set(CPACK_PACKAGE_FILE_NAME fsdp-train-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_GENERATOR TGZ DEB)  # a bare Debian has gzip, and no xz
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};fsdp;fsdp-programs;/;${PROJECT_BINARY_DIR};fsdp;fsdp-runtime;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)  # all cores

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)  # a sixth of the time of xz
# The libraries of C and C++: at least those of the machine that the programs were built on.
foreach(package libc6 libgcc-s1 libstdc++6)
  execute_process(COMMAND dpkg-query --show --showformat=\${source:Upstream-Version} ${package} OUTPUT_VARIABLE version
                  ERROR_QUIET)
  list(APPEND fsdp_depends "${package} (>= ${version})")
endforeach()
list(JOIN fsdp_depends ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
include(CPack)
