"""Conan 2 recipe of the libraries rrdma::comm and rrdma::rpc: conan create packaging/conan. libibverbs and librdmacm come
from the system, as their providers belong to its kernel."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Rrdma(ConanFile):
    name = "rrdma"
    version = "0.2.0"
    description = "RDMA and remote procedure calls in modern C++"
    homepage = "https://github.com/OWNER/rrdma"
    license = "MIT"
    topics = ("rdma", "verbs", "rpc")
    package_type = "shared-library"
    settings = ("os", "arch", "compiler", "build_type")
    requires = ("cli11/2.4.2", "openssl/[>=3 <4]", "prometheus-cpp/1.2.4", "protobuf/3.21.12")
    tool_requires = ("protobuf/3.21.12",)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("RDMA verbs are an interface of Linux")
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "lib/*", "fuzz/CMakeLists.txt", "docs/man/*"):
            copy(self, pattern, tree, self.export_sources_folder)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("RRDMA_DEVICE", "RRDMA_TESTS", "RRDMA_BENCH", "RRDMA_WERROR"):
            toolchain.cache_variables[option] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        comm, rpc = self.cpp_info.components["comm"], self.cpp_info.components["rpc"]
        comm.libs, comm.system_libs = ["rrdma-comm"], ["pthread", "dl"]
        comm.set_property("cmake_file_name", "rrdma-comm")
        comm.set_property("cmake_target_name", "rrdma::comm")
        rpc.libs = ["rrdma-rpc"]
        rpc.requires = ["comm", "openssl::crypto", "prometheus-cpp::prometheus-cpp-core", "protobuf::libprotobuf", "cli11::cli11"]
        rpc.set_property("cmake_file_name", "rrdma-rpc")
        rpc.set_property("cmake_target_name", "rrdma::rpc")
