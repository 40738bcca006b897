#include "models/part_randomness.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fsdp/random.h>

#include "models/parts.h"

namespace models {

PartRandomness::PartRandomness(const torch::Device& device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  {
    const std::scoped_lock lock(cpu.mutex());
    number_ = at::check_generator<at::CPUGeneratorImpl>(cpu)->random64();
  }
  states_.emplace_back(cpu, cpu.get_state());
  if (device.is_cpu()) return;
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  states_.emplace_back(generator, generator.get_state());
}

PartRandomness::~PartRandomness() {
  for (auto& [generator, state] : states_) generator.set_state(state);
}

void PartRandomness::seed(int part) const { fsdp::seed_micro_batch(number_, 0, part); }

torch::Tensor dropout_between(const torch::Tensor& x, double share, bool is_training, const Division& division) {
  if (!division.tensor || !division.sequence_parallel || share == 0 || !is_training)
    return torch::dropout(x, share, is_training);
  const PartRandomness randomness(x.device());
  std::vector<torch::Tensor> slices = split_evenly(x, 1, division);
  int part = parts_of(division).first;
  for (torch::Tensor& slice : slices) {
    randomness.seed(part++);
    slice = torch::dropout(slice, share, /*train=*/true);
  }
  return join(slices, 1);
}

}  // namespace models
