#include "data/batch.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>

namespace data {

namespace {

void check_vocabulary(const TokenSource& source, int64_t first, std::span<const int64_t> tokens, int64_t vocabulary) {
  const auto largest = std::max_element(tokens.begin(), tokens.end());
  if (*largest < vocabulary) return;
  throw fsdp::Error(fmt::format(
      "{} is {}, and the model has a vocabulary of {}. Use the tokenizer that the data was made with, or give "
      "the model its vocabulary.",
      source.where(first + (largest - tokens.begin())), *largest, vocabulary));
}

}  // namespace

Batch make_batch(const TokenSource& source, const std::vector<int64_t>& starts, int64_t context, int64_t vocabulary) {
  const auto windows = static_cast<int64_t>(starts.size());
  Batch batch{.tokens = torch::empty({windows, context}, torch::kInt64),
              .targets = torch::empty({windows, context}, torch::kInt64)};
  const auto length = static_cast<size_t>(context);
  auto* tokens = batch.tokens.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  const bool unsure = source.limit() > vocabulary;
  for (int64_t start : starts) {
    // What both have in common is read once.
    source.read(start, {tokens, length});
    source.read(start + context, {targets + length - 1, 1});
    std::copy(tokens + 1, tokens + length, targets);
    if (unsure) {
      check_vocabulary(source, start, {tokens, length}, vocabulary);
      check_vocabulary(source, start + context, {targets + length - 1, 1}, vocabulary);
    }
    tokens += length;
    targets += length;
  }
  return batch;
}

}  // namespace data
