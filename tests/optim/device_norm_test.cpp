// The norm that is added up on a device has the bits of the one that is added up here; the CPU stands for the device.
#include "optim/device_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

namespace fsdp::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<torch::Tensor> random_pieces(double spread) {
  torch::manual_seed(3);
  std::vector<torch::Tensor> pieces;
  for (int64_t numel : {1, 0, 63, 64, 65, 1000, 70000})
    pieces.push_back(torch::randn({numel}) * torch::exp(spread * torch::randn({numel})));
  return pieces;
}

NormSum norm_here(const std::vector<torch::Tensor>& pieces, double norm_type) {
  NormSum norm(norm_type);
  for (const torch::Tensor& piece : pieces)
    norm.add({piece.const_data_ptr<float>(), static_cast<size_t>(piece.numel())});
  return norm;
}

TEST(DeviceNorm, HasTheBitsOfTheHosts) {
  for (double spread : {0.0, 4.0, 20.0}) {
    const auto pieces = random_pieces(spread);
    for (double norm_type : {2.0, kInfinity})
      EXPECT_EQ(norm_on_device(pieces, norm_type).norm(), norm_here(pieces, norm_type).norm()) << norm_type;
  }
}

// A tensor's pow rounds differently from the C library's, within a few units of the last place of each term.
TEST(DeviceNorm, OfOtherPowersIsTheSameNumber) {
  const auto pieces = random_pieces(4.0);
  for (double norm_type : {1.0, 3.0, 0.5}) {
    const double expected = norm_here(pieces, norm_type).norm();
    EXPECT_NEAR(norm_on_device(pieces, norm_type).norm(), expected, 1e-13 * expected) << norm_type;
  }
}

// A power far below the smallest normal double.
TEST(DeviceNorm, KeepsDenormalTerms) {
  const std::vector<torch::Tensor> pieces{torch::full({5}, 1e-32f)};
  const double norm = norm_on_device(pieces, 10.0).norm();
  EXPECT_GT(norm, 0);
  EXPECT_NEAR(norm, norm_here(pieces, 10.0).norm(), 1e-3 * norm);  // a denormal has few bits
}

TEST(DeviceNorm, ShowsWhatIsNotFinite) {
  for (double norm_type : {2.0, 1.0, kInfinity}) {
    EXPECT_EQ(norm_on_device({torch::ones({70}), torch::tensor({1.0f, -INFINITY})}, norm_type).norm(), kInfinity);
    EXPECT_TRUE(std::isnan(norm_on_device({torch::ones({70}), torch::tensor({1.0f, NAN})}, norm_type).norm()));
  }
}

TEST(DeviceNorm, OfNothingIsZero) {
  EXPECT_EQ(norm_on_device({}, 2.0).norm(), 0);
  EXPECT_EQ(norm_on_device({torch::empty({0})}, 2.0).norm(), 0);
  EXPECT_EQ(norm_on_device({torch::empty({0})}, kInfinity).norm(), 0);
}

}  // namespace
}  // namespace fsdp::optim
