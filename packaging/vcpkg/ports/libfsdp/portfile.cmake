# An overlay port: builds the repository that it lies in. The environment variable LIBTORCH names the folder of LibTorch.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)

if(NOT EXISTS "$ENV{LIBTORCH}/share/cmake/Torch/TorchConfig.cmake")
  message(FATAL_ERROR "LIBTORCH is '$ENV{LIBTORCH}', which has no share/cmake/Torch/TorchConfig.cmake. Set it to the folder "
                      "of LibTorch, and VCPKG_KEEP_ENV_VARS=LIBTORCH; docs/install.md says how to find it.")
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DTorch_DIR=$ENV{LIBTORCH}/share/cmake/Torch
    -DFSDP_BUILD_APPS=OFF -DFSDP_BUILD_EXAMPLES=OFF -DFSDP_BUILD_TESTS=OFF -DFSDP_BUILD_BENCHMARKS=OFF
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME fsdp CONFIG_PATH lib/cmake/fsdp)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
