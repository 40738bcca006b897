// Tensors over files: zeros at first, of any dtype; their room on the disk is theirs alone, and given back with them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "memory/backing.h"
#include "memory/mapped_tensor.h"
#include "memory/pages.h"
#include "support/bytes_on_disk.h"
#include "support/temporary_folder.h"

namespace fsdp::memory {
namespace {

using ::fsdp::testing::bytes_on_disk;

constexpr auto kPage = static_cast<int64_t>(kPageBytes);

class FileBackingTest : public ::testing::Test {
 protected:
  TemporaryFolder scratch_;
  std::shared_ptr<Backing> backing_ = file_backing(std::make_shared<const OffloadFolder>(scratch_.path(), 0));
};

TEST_F(FileBackingTest, GivesZerosOfEveryDtypeThatDoNotMeet) {
  std::vector<torch::Tensor> tensors;
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kInt8, torch::kUInt8}) {
    for (const int64_t numel : {0, 1, 100, 100'000}) {
      const torch::Tensor tensor = backing_->zeros(numel, torch::dtype(dtype));
      EXPECT_EQ(tensor.scalar_type(), dtype);
      EXPECT_EQ(tensor.sizes(), std::vector<int64_t>{numel});
      EXPECT_TRUE(tensor.eq(0).all().item<bool>());
      tensors.push_back(tensor);
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].fill_(static_cast<int64_t>(i));
  for (size_t i = 0; i < tensors.size(); ++i) {
    put_away(tensors[i]);
    read_ahead(tensors[i]);
    EXPECT_TRUE(tensors[i].eq(static_cast<int64_t>(i)).all().item<bool>()) << i;
  }
}

TEST_F(FileBackingTest, GivesTheRoomBackWithTheTensorAndZerosAgainAfterwards) {
  const torch::Tensor kept = backing_->zeros(kPage, torch::kFloat32);
  EXPECT_EQ(bytes_on_disk(scratch_.path()), 4 * kPage);
  for (int i = 0; i < 3; ++i) {
    torch::Tensor tensor = backing_->zeros(10 * kPage, torch::kUInt8);
    EXPECT_TRUE(tensor.eq(0).all().item<bool>());
    tensor.fill_(7);
    const torch::Tensor part = tensor.slice(0, 5, 10).view(torch::kInt8);
    tensor = torch::Tensor();
    EXPECT_EQ(bytes_on_disk(scratch_.path()), 14 * kPage);  // a part keeps all
    EXPECT_TRUE(part.eq(7).all().item<bool>());
  }
  EXPECT_EQ(bytes_on_disk(scratch_.path()), 4 * kPage);
}

TEST_F(FileBackingTest, TensorsOutliveIt) {
  const torch::Tensor tensor = backing_->zeros(1000, torch::kFloat32);
  backing_.reset();
  tensor.fill_(3);
  put_away(tensor);
  EXPECT_TRUE(tensor.eq(3).all().item<bool>());
}

TEST_F(FileBackingTest, OfOtherTensorsNothingIsAsked) {
  const torch::Tensor plain = plain_backing()->zeros(100, torch::kFloat32).fill_(5);
  EXPECT_EQ(pages_of(plain), nullptr);
  EXPECT_EQ(pages_of(torch::Tensor()), nullptr);
  put_away(plain);
  read_ahead(plain);
  EXPECT_TRUE(plain.eq(5).all().item<bool>());
  EXPECT_NE(pages_of(backing_->zeros(100, torch::kFloat32)), nullptr);
}

}  // namespace
}  // namespace fsdp::memory
