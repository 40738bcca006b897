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

double norm_there(const std::vector<torch::Tensor>& pieces, double norm_type) {
  return norm_of_words(norm_words(pieces, norm_type), norm_type).item<double>();
}

TEST(DeviceNorm, HasTheBitsOfTheHosts) {
  for (double spread : {0.0, 4.0, 20.0}) {
    const auto pieces = random_pieces(spread);
    for (double norm_type : {2.0, kInfinity})
      EXPECT_EQ(norm_there(pieces, norm_type), norm_here(pieces, norm_type).norm()) << norm_type;
  }
}

// Long ones are read where they lie, several at once; short ones are copied together first.
TEST(DeviceNorm, OfPartsOfOneTensorIsThatOfTheWholePieces) {
  torch::manual_seed(4);
  const torch::Tensor flat = torch::randn({(int64_t{1} << 22) + 1000});
  const int64_t cuts[] = {0, 64, 128, 1000, 1024, (int64_t{1} << 21), flat.numel() - 999, flat.numel()};
  std::vector<torch::Tensor> pieces;
  for (size_t i = 0; i + 1 < std::size(cuts); ++i) pieces.push_back(flat.slice(0, cuts[i], cuts[i + 1]));
  EXPECT_EQ(norm_there(pieces, 2.0), norm_here(pieces, 2.0).norm());
  EXPECT_EQ(norm_there({flat}, 2.0), norm_here({flat}, 2.0).norm());
}

// A sum has the same words here and there, whichever part of it is which rank's.
TEST(DeviceNorm, AddsTheSumsOfRanks) {
  const auto pieces = random_pieces(20.0);
  for (double norm_type : {2.0, kInfinity}) {
    NormSum here(norm_type);
    std::vector<torch::Tensor> sums;
    for (const torch::Tensor& piece : pieces) {
      sums.push_back(norm_words({piece}, norm_type));
      NormSum::Words words;
      std::copy_n(sums.back().const_data_ptr<int64_t>(), words.size(), words.begin());
      here.add(words);
    }
    const double expected = norm_here(pieces, norm_type).norm();
    EXPECT_EQ(here.norm(), expected);
    EXPECT_EQ(norm_of_words(add_norm_words(sums), norm_type).item<double>(), expected);
  }
}

// A tensor's pow rounds differently from the C library's, within a few units of the last place of each term.
TEST(DeviceNorm, OfOtherPowersIsTheSameNumber) {
  const auto pieces = random_pieces(4.0);
  for (double norm_type : {1.0, 3.0, 0.5}) {
    const double expected = norm_here(pieces, norm_type).norm();
    EXPECT_NEAR(norm_there(pieces, norm_type), expected, 1e-13 * expected) << norm_type;
  }
}

// A power far below the smallest normal double.
TEST(DeviceNorm, KeepsDenormalTerms) {
  const std::vector<torch::Tensor> pieces{torch::full({5}, 1e-32f)};
  const double norm = norm_there(pieces, 10.0);
  EXPECT_GT(norm, 0);
  EXPECT_NEAR(norm, norm_here(pieces, 10.0).norm(), 1e-3 * norm);  // a denormal has few bits
}

TEST(DeviceNorm, ShowsWhatIsNotFinite) {
  for (double norm_type : {2.0, 1.0, kInfinity}) {
    EXPECT_EQ(norm_there({torch::ones({70}), torch::tensor({1.0f, -INFINITY})}, norm_type), kInfinity);
    EXPECT_TRUE(std::isnan(norm_there({torch::ones({70}), torch::tensor({1.0f, NAN})}, norm_type)));
  }
}

TEST(DeviceNorm, OfNothingIsZero) {
  EXPECT_EQ(norm_there({torch::empty({0})}, 2.0), 0);
  EXPECT_EQ(norm_there({torch::empty({0})}, kInfinity), 0);
}

}  // namespace
}  // namespace fsdp::optim
