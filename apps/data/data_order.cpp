#include "data/data_order.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace trainer {

namespace {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 .. bound-1. The bias of the remainder is below bound / 2^64.
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace

using std::size_t;

std::vector<int64_t> shuffled(int64_t count, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  // Through the generator once, so that neighbouring seeds and epochs have nothing in common.
  SplitMix64 random(SplitMix64(seed).next() + epoch);
  for (size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

DataOrder::DataOrder(int64_t text_bytes, int64_t context, uint64_t seed)
    : context_(context), windows_((text_bytes - 1) / context), seed_(seed) {}

std::vector<int64_t> DataOrder::window_starts(const StepShape& shape, int64_t step, int64_t rank, int64_t micro_batch) {
  const int64_t number = (step * shape.micro_batches + micro_batch) * shape.ranks + rank;  // in the whole job
  std::vector<int64_t> starts;
  for (int64_t place = number * shape.batch; place < (number + 1) * shape.batch; ++place) {
    const int64_t epoch = place / windows_;
    if (epoch != epoch_) order_ = shuffled(windows_, seed_, static_cast<uint64_t>(epoch_ = epoch));
    starts.push_back(order_[static_cast<size_t>(place % windows_)] * context_);
  }
  return starts;
}

}  // namespace trainer
