# Files that `cmake --install` puts into a prefix, in two components: fsdp-library, with which find_package(fsdp) gives
# fsdp::fsdp, and fsdp-programs.
include(CMakePackageConfigHelpers)

set(fsdp_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fsdp)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fsdp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT fsdp-library
        FILES_MATCHING PATTERN "*.h")
install(TARGETS fsdp EXPORT fsdpTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT fsdp-library)
install(EXPORT fsdpTargets NAMESPACE fsdp:: DESTINATION ${fsdp_package_dir} COMPONENT fsdp-library)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/fsdpConfig.cmake.in ${PROJECT_BINARY_DIR}/fsdpConfig.cmake
                              INSTALL_DESTINATION ${fsdp_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fsdpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fsdpConfig.cmake ${PROJECT_BINARY_DIR}/fsdpConfigVersion.cmake
        DESTINATION ${fsdp_package_dir} COMPONENT fsdp-library)

if(NOT FSDP_BUILD_APPS)
  return()
endif()

# Programs that are not built are left out. Those that are installed use the libraries of a package, if they are in one
# (Package.cmake), otherwise the LibTorch that they were linked with.
file(RELATIVE_PATH fsdp_rpath ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/fsdp)
set(fsdp_rpath $ORIGIN/${fsdp_rpath})
set_target_properties(fsdp-train fsdp-convert fsdp-plan fsdp-calibrate PROPERTIES INSTALL_RPATH "${fsdp_rpath};${TORCH_INSTALL_PREFIX}/lib")
install(TARGETS fsdp-train fsdp-convert fsdp-plan fsdp-calibrate OPTIONAL COMPONENT fsdp-programs)
if(FSDP_WITH_SENTENCEPIECE)
  set_target_properties(fsdp_sentencepiece PROPERTIES INSTALL_RPATH $ORIGIN)
  install(TARGETS fsdp_sentencepiece OPTIONAL
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/fsdp COMPONENT fsdp-programs)
endif()

# Each program says what its options are: it is asked when it is installed.
install(CODE "
  set(prefix \"\${CMAKE_INSTALL_PREFIX}\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/InstallManual.cmake\")
  install_manual(fsdp-train \"$<TARGET_FILE:fsdp-train>\")
  install_manual(fsdp-convert \"$<TARGET_FILE:fsdp-convert>\")
  install_manual(fsdp-plan \"$<TARGET_FILE:fsdp-plan>\")" COMPONENT fsdp-programs)

if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/Package.cmake)
endif()
