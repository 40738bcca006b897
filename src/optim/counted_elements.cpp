#include "optim/counted_elements.h"

namespace fsdp::optim {

std::vector<layout::Range> counted_elsewhere(const engine::Model& model, const torch::Tensor& parameter) {
  std::vector<layout::Range> all;
  const auto add = [&](const engine::OtherParts& parts) {
    const std::vector<layout::Range> ranges = parts.counted_elsewhere(parameter);
    all.insert(all.end(), ranges.begin(), ranges.end());
  };
  for (const auto& axis : model.axes()) add(*axis);
  if (const auto& stages = model.other_parts()) add(*stages);
  return all;
}

torch::Tensor without(const torch::Tensor& values, int64_t begin, const std::vector<layout::Range>& ranges) {
  torch::Tensor counted = values;
  for (const layout::Range& range : ranges) {
    const layout::Range here = layout::intersect(range, {begin, begin + values.numel()});
    if (here.numel() == 0) continue;
    if (here.numel() == values.numel()) return values.narrow(0, 0, 0);
    if (counted.is_same(values)) counted = values.clone();
    counted.narrow(0, here.begin - begin, here.numel()).zero_();
  }
  return counted;
}

}  // namespace fsdp::optim
