"""The library as a Conan package. LibTorch is one of the user's own: the option `libtorch` names its folder.

  conan create packaging/conan -o "libfsdp/*:libtorch=<libtorch>" --build=missing
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Libfsdp(ConanFile):
    name = "libfsdp"
    license = "BSD-3-Clause"
    description = "FSDP and DDP for LibTorch"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"libtorch": ["ANY"]}
    default_options = {"libtorch": ""}

    # The headers alone of the first three are compiled into the library; a program links libcrypto.
    def requirements(self):
        self.requires("fmt/[>=9 <13]", visible=False)
        self.requires("nlohmann_json/[>=3.10 <4]", visible=False)
        self.requires("xxhash/[>=0.8 <0.9]", visible=False)
        self.requires("openssl/[>=3 <4]")

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "../../include/fsdp/version.h"))
        self.version = ".".join(re.findall(r"^#define FSDP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M))

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "../..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("libfsdp runs on Linux alone.")
        if not os.path.exists(os.path.join(str(self.options.libtorch), "share/cmake/Torch/TorchConfig.cmake")):
            raise ConanInvalidConfiguration(
                f"the option libtorch is '{self.options.libtorch}', which has no share/cmake/Torch/TorchConfig.cmake. "
                'Name the folder of LibTorch: -o "libfsdp/*:libtorch=<libtorch>"; docs/install.md says how to find it.'
            )

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["Torch_DIR"] = os.path.join(str(self.options.libtorch), "share/cmake/Torch")
        for part in ("APPS", "EXAMPLES", "TESTS", "BENCHMARKS"):
            toolchain.cache_variables[f"FSDP_BUILD_{part}"] = False
        toolchain.cache_variables["CMAKE_UNITY_BUILD"] = True
        toolchain.cache_variables["CMAKE_UNITY_BUILD_BATCH_SIZE"] = "24"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="fsdp")

    def package(self):
        CMake(self).install(component="fsdp-library")
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    # find_package(fsdp) reads the library's own configuration, which finds LibTorch.
    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/fsdp"]
