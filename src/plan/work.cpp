#include "plan/work.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace fsdp::plan {

namespace {

struct Tile {
  double m, n;
  double efficiency;  // of its processor: small tiles read operands more often
};
constexpr std::array<Tile, 4> kTiles = {{{256, 128, 1}, {128, 128, 0.95}, {128, 64, 0.8}, {64, 64, 0.6}}};

// Parts of k that are computed beside each other, where a product has few tiles.
constexpr std::array<double, 4> kSplits = {1, 2, 4, 8};
constexpr double kLeastDepth = 256;

}  // namespace

Work product(int64_t m, int64_t n, int64_t k, int64_t batch, double rate) {
  return {.m = m, .n = n, .k = k, .batch = batch, .rate = rate};
}

Work memory_pass(double bytes, double kernels) { return {.bytes = bytes, .kernels = kernels}; }

Work launches(double kernels) { return {.kernels = kernels}; }

void append(std::vector<Work>& works, const std::vector<Work>& more) {
  works.insert(works.end(), more.begin(), more.end());
}

std::vector<Work> gradients_of(const std::vector<Work>& products) {
  std::vector<Work> gradients;
  for (const Work& work : products) {
    gradients.push_back(product(work.m, work.k, work.n, work.batch, work.rate));
    gradients.push_back(product(work.n, work.k, work.m, work.batch, work.rate));
  }
  return gradients;
}

double product_seconds(int64_t m, int64_t n, int64_t k, int64_t batch, double rate, const Hardware& hardware) {
  const auto processors = static_cast<double>(hardware.processors);
  const auto depth = static_cast<double>(k);
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(static_cast<double>(m) / tile.m) * std::ceil(static_cast<double>(n) / tile.n) *
                         static_cast<double>(batch);
    for (const double split : kSplits) {
      if (split > 1 && (tiles * split > 2 * processors || depth / split < kLeastDepth)) break;
      const double share = tiles * split / processors;
      const double waves =
          std::ceil(share) <= 2 ? std::ceil(share) : (std::ceil(share) + share) / 2;  // later ones overlap
      const double of_tile = 2 * tile.m * tile.n * (depth / split + hardware.half_depth);
      least = std::min(least, waves * of_tile * processors / (rate * tile.efficiency));
    }
  }
  return least;
}

double device_seconds(const Work& work, const Hardware& hardware, int64_t element) {
  const double bandwidth = hardware.memory_bandwidth * hardware.memory_efficiency;
  double seconds = work.seconds + work.bytes / bandwidth + work.kernels * hardware.kernel_seconds;
  if (work.attention > 0) seconds += work.attention / work.attention_rate;
  if (work.m == 0) return seconds;
  const double rate =
      (element == 4 ? hardware.wide_product_rate : hardware.product_rate * hardware.sustained) * work.rate;
  const auto m = static_cast<double>(work.m), n = static_cast<double>(work.n), k = static_cast<double>(work.k);
  const double bytes = static_cast<double>(element * work.batch) * (m * n + m * k + n * k);
  return seconds + std::max(product_seconds(work.m, work.n, work.k, work.batch, rate, hardware), bytes / bandwidth);
}

WorkTime WorkTime::then(const WorkTime& next) const {
  return {.host = host + next.host,
          .device = device + next.device,
          .joint = std::max(joint + next.device, host + next.joint)};
}

WorkTime time_of(const std::vector<Work>& works, const Hardware& hardware, double launch, int64_t element,
                 double exposed) {
  WorkTime time;
  for (const Work& work : works) {
    const double host = work.kernels * launch + work.host_seconds;
    const double device = device_seconds(work, hardware, element);
    time = time.then({.host = host, .device = device, .joint = host + device});
  }
  const double lost = exposed * std::min(time.host, time.device);
  return {.host = time.host + lost, .device = time.device + lost, .joint = time.joint + lost};
}

}  // namespace fsdp::plan
