# Files that `cmake --install` puts into a prefix, so that find_package(fsdp) gives fsdp::fsdp there.
include(CMakePackageConfigHelpers)

set(fsdp_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fsdp)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fsdp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS fsdp EXPORT fsdpTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT fsdpTargets NAMESPACE fsdp:: DESTINATION ${fsdp_package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/fsdpConfig.cmake.in ${PROJECT_BINARY_DIR}/fsdpConfig.cmake
                              INSTALL_DESTINATION ${fsdp_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fsdpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fsdpConfig.cmake ${PROJECT_BINARY_DIR}/fsdpConfigVersion.cmake
        DESTINATION ${fsdp_package_dir})

# Installed programs go on finding the LibTorch that they were linked with.
if(TARGET fsdp-train)
  set_target_properties(fsdp-train fsdp-convert PROPERTIES INSTALL_RPATH ${TORCH_INSTALL_PREFIX}/lib)
endif()
