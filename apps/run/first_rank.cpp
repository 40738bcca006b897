#include "run/first_rank.h"

#include <cstring>
#include <exception>

namespace trainer {

namespace {

struct Answer {
  std::string text;  // what was found, or why it was not
  bool failed = false;
};

Answer answer_of(const std::function<std::string()>& find) try {
  return {.text = find()};
} catch (const std::exception& error) {
  return {.text = error.what(), .failed = true};
}

}  // namespace

std::string from_first_rank(fsdp::World& world, const std::function<std::string()>& find) {
  const bool is_first = world.rank() == 0;
  Answer answer = is_first ? answer_of(find) : Answer();
  torch::Tensor head =
      torch::tensor({static_cast<int64_t>(answer.failed), static_cast<int64_t>(answer.text.size())}, torch::kInt64);
  world.broadcast_(head);
  if (head[0].item<int64_t>() != 0) throw AgreedError(world, answer.text);
  torch::Tensor bytes = torch::zeros({head[1].item<int64_t>()}, torch::kUInt8);
  if (bytes.numel() == 0) return "";
  if (is_first) std::memcpy(bytes.data_ptr(), answer.text.data(), answer.text.size());
  world.broadcast_(bytes);
  answer.text.assign(static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel()));
  return answer.text;
}

}  // namespace trainer
