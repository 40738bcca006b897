#include "data/batch.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>

namespace data {

namespace {

void check_vocabulary(const TokenSource& source, const Reading& reading, int64_t vocabulary) {
  const auto largest = std::max_element(reading.tokens.begin(), reading.tokens.end());
  if (*largest < vocabulary) return;
  throw fsdp::Error(
      fmt::format("{} is {}, and the model has a vocabulary of {}. Use the data's tokenizer, or set the model's "
                  "--vocabulary to it.",
                  source.where(reading.first + (largest - reading.tokens.begin())), *largest, vocabulary));
}

}  // namespace

Batch make_batch(const TokenSource& source, const std::vector<int64_t>& starts, int64_t context, int64_t vocabulary) {
  const auto windows = static_cast<int64_t>(starts.size());
  Batch batch{.tokens = torch::empty({windows, context}, torch::kInt64),
              .targets = torch::empty({windows, context}, torch::kInt64)};
  const auto length = static_cast<size_t>(context);
  auto* tokens = batch.tokens.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  std::vector<Reading> readings;
  readings.reserve(2 * starts.size());
  for (size_t window = 0; window < starts.size(); ++window) {
    // The part that both have in common is read once.
    readings.push_back({starts[window], {tokens + window * length, length}});
    readings.push_back({starts[window] + context, {targets + (window + 1) * length - 1, 1}});
  }
  source.read_several(readings);
  for (size_t window = 0; window < starts.size(); ++window) {
    const int64_t* row = tokens + window * length;
    std::copy(row + 1, row + length, targets + window * length);
  }
  if (source.limit() > vocabulary) {
    for (const Reading& reading : readings) check_vocabulary(source, reading, vocabulary);
  }
  return batch;
}

// A copy from pinned memory is queued behind the device's kernels.
torch::Tensor to_device(const torch::Tensor& tensor, const torch::Device& device) {
  return device.is_cpu() ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace data
