// An exact sum on a device has the host's bits, whatever its limbs are; the CPU stands for the device.
#include "optim/device_exact_sum.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "optim/exact_sum.h"

namespace fsdp::optim {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

torch::Tensor tensor_of(const ExactSum::Limbs& limbs) {
  return torch::tensor(std::vector<int64_t>(limbs.begin(), limbs.end()), torch::kInt64);
}

uint64_t bits_there(const ExactSum::Limbs& limbs, double special = 0) {
  const torch::Tensor value = exact_value(tensor_of(limbs), torch::full({}, special, torch::kFloat64));
  return std::bit_cast<uint64_t>(value.item<double>());
}

void expect_host_bits(const ExactSum::Limbs& limbs) {
  const double expected = ExactSum::from(limbs, 0).value();
  EXPECT_EQ(bits_there(limbs), std::bit_cast<uint64_t>(expected)) << expected;
}

TEST(DeviceExactSum, OfRandomLimbsHasTheHostsBits) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    ExactSum::Limbs limbs{};
    const int first = static_cast<int>(random() % 65), count = 1 + static_cast<int>(random() % 6);
    for (int i = first; i < std::min(first + count, 66); ++i)
      limbs[i] = static_cast<int64_t>(random() >> (31 + random() % 33));
    if (random() % 2) limbs[random() % 66] |= 1;
    expect_host_bits(limbs);
  }
}

// Ones all along pass a carry from the lowest limb to the highest.
TEST(DeviceExactSum, CarriesThroughAnyNumberOfLimbs) {
  for (int first : {0, 1, 5, 30}) {
    for (int last : {1, 2, 3, 31, 60}) {
      ExactSum::Limbs limbs{};
      for (int i = first; i <= last; ++i) limbs[i] = 0xffffffff;
      expect_host_bits(limbs);
      for (const int64_t more : {int64_t{1}, int64_t{2}, int64_t{0xffffffff}, int64_t{1} << 32}) {
        ExactSum::Limbs carried = limbs;
        carried[first] += more;
        expect_host_bits(carried);
      }
    }
  }
}

// Half of the last place, above it by the lowest bit that there is, and below it.
TEST(DeviceExactSum, RoundsTiesToEven) {
  for (int place = 0; place < 32; ++place) {
    for (int limb : {2, 3, 20, 40}) {
      for (const int64_t odd : {0, 1}) {
        ExactSum sum;
        const double unit = std::ldexp(1.0, 32 * limb + place + 60 - 1074);
        sum.add(unit);
        if (odd) sum.add(std::ldexp(unit, -52));
        sum.add(std::ldexp(unit, -53));
        expect_host_bits(sum.limbs());
        sum.add(std::numeric_limits<double>::denorm_min());
        expect_host_bits(sum.limbs());
      }
    }
  }
}

TEST(DeviceExactSum, OfTheSmallestAndLargestHasTheHostsBits) {
  expect_host_bits({});
  for (const double term : {std::numeric_limits<double>::denorm_min(), 3e-310, std::numeric_limits<double>::min(), 1.0,
                            std::numeric_limits<double>::max()}) {
    ExactSum sum;
    for (int count = 0; count < 3; ++count) {
      sum.add(term);
      expect_host_bits(sum.limbs());
    }
  }
}

TEST(DeviceExactSum, OfManyTermsHasTheHostsBits) {
  torch::manual_seed(2);
  for (double spread : {1.0, 30.0, 300.0}) {
    const torch::Tensor terms = torch::exp(spread * torch::randn({20000}, torch::kFloat64)).clamp_max(1e300);
    ExactSum here;
    for (int64_t i = 0; i < terms.numel(); ++i) here.add(terms.const_data_ptr<double>()[i]);
    DeviceExactSum there(terms.device());
    for (const torch::Tensor& part : terms.split(7001)) there.add(part);
    EXPECT_EQ(exact_value(there.limbs(), there.special()).item<double>(), here.value());
    EXPECT_LT(there.limbs().max().item<int64_t>(), int64_t{1} << 33);
  }
}

TEST(DeviceExactSum, ShowsWhatIsNotFinite) {
  const auto value = [](std::vector<double> terms) {
    DeviceExactSum sum(torch::kCPU);
    sum.add(torch::tensor(terms, torch::kFloat64));
    return exact_value(sum.limbs(), sum.special()).item<double>();
  };
  EXPECT_EQ(value({1, kUnbounded, 2}), kUnbounded);
  EXPECT_TRUE(std::isnan(value({1, kUnbounded, std::nan("")})));
}

}  // namespace
}  // namespace fsdp::optim
