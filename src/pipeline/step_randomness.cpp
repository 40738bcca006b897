#include "pipeline/step_randomness.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "fsdp/random.h"

namespace fsdp::pipeline {

StepRandomness::StepRandomness(torch::Device device) {
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

StepRandomness::~StepRandomness() {
  for (auto& [generator, state] : states_) generator.set_state(state);
}

void StepRandomness::seed(int64_t micro_batch, int block) const { seed_micro_batch(number_, micro_batch, block); }

}  // namespace fsdp::pipeline
