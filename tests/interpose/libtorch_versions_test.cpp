// What differs between versions and builds of LibTorch.
#include "interpose/libtorch_versions.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "support/message_of.h"

namespace fsdp::interpose {
namespace {

using ::testing::HasSubstr;

// LibTorch's libraries export functions of std::filesystem, of the compiler that they were built with. Those of 2.11
// with CUDA crash: remove_all calls a null pointer.
TEST(LibTorchVersions, ProgramsUseTheFileFunctionsOfTheCppLibrary) {
  using RemoveAll = std::uintmax_t (*)(const std::filesystem::path&, std::error_code&);
  const RemoveAll used = std::filesystem::remove_all;
  Dl_info found = {};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(used), &found), 0);
  EXPECT_THAT(found.dli_fname, HasSubstr("libstdc++"));
}

TEST(LibTorchVersions, AStorageThatRefusedAccessAllowsItAgain) {
  torch::Tensor tensor = torch::ones({2});
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_("not now");
  EXPECT_THAT(testing::message_of([&] { tensor.mutable_data_ptr(); }), HasSubstr("not now"));
  EXPECT_THAT(testing::message_of([&] { tensor.const_data_ptr(); }), HasSubstr("not now"));
  allow_data_access(storage);
  EXPECT_EQ(tensor.mutable_data_ptr(), tensor.const_data_ptr());
  EXPECT_EQ(tensor.sum().item<float>(), 2);
}

}  // namespace
}  // namespace fsdp::interpose
