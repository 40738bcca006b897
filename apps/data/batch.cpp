#include "data/batch.h"

namespace trainer {

Batch make_batch(std::string_view text, const std::vector<int64_t>& starts, int64_t context) {
  auto windows = torch::empty({static_cast<int64_t>(starts.size()), context + 1}, torch::kInt64);
  auto* next = windows.mutable_data_ptr<int64_t>();
  for (int64_t start : starts) {
    for (char byte : text.substr(static_cast<size_t>(start), static_cast<size_t>(context) + 1)) {
      *next++ = static_cast<unsigned char>(byte);
    }
  }
  return {.tokens = windows.narrow(1, 0, context).contiguous(), .targets = windows.narrow(1, 1, context).contiguous()};
}

}  // namespace trainer
