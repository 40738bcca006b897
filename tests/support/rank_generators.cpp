#include "support/rank_generators.h"

#include <ATen/CPUGeneratorImpl.h>

namespace fsdp::testing {

namespace {

const at::Generator& generator_of_process() {
  static auto* const generator =
      new at::Generator(at::detail::createCPUGenerator(c10::detail::getNonDeterministicRandom()));
  return *generator;
}

thread_local const at::Generator* generator_of_thread = nullptr;

}  // namespace

RankGenerator::RankGenerator() : generator_(at::detail::createCPUGenerator(c10::default_rng_seed_val)) {
  generator_of_thread = &generator_;
}

RankGenerator::~RankGenerator() { generator_of_thread = nullptr; }

}  // namespace fsdp::testing

namespace at::detail {

const Generator& getDefaultCPUGenerator() {
  const Generator* own = fsdp::testing::generator_of_thread;
  return own ? *own : fsdp::testing::generator_of_process();
}

}  // namespace at::detail
