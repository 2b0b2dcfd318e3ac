#include "nic/memory/cuda_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

namespace rrdma::nic::cuda_library_test {

int looks = 0;  // for libcuda.so.1

}  // namespace rrdma::nic::cuda_library_test

// The library's calls come here, too.
extern "C" void* dlopen(const char* name, int flags) noexcept(noexcept(::dlopen(name, flags))) {
  static const auto real = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  if (name != nullptr && std::strcmp(name, "libcuda.so.1") == 0) ++rrdma::nic::cuda_library_test::looks;
  return real(name, flags);
}

namespace rrdma::nic::cuda_library_test {

// Each registration asks, and a look searches the file system.
TEST(CudaLibrary, LooksAgainOnlyAfterTheProgramHasLoadedALibrary) {
  if (CudaLibrary::find() != nullptr) GTEST_SKIP() << "this process has loaded libcuda";
  const int before = looks;
  EXPECT_EQ(CudaLibrary::find(), nullptr);
  EXPECT_EQ(CudaLibrary::find(), nullptr);
  EXPECT_EQ(looks, before);
  void* const library = ::dlopen("libutil.so.1", RTLD_LAZY);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(CudaLibrary::find(), nullptr);
  EXPECT_EQ(looks, before + 1);
  dlclose(library);
}

}  // namespace rrdma::nic::cuda_library_test
