// A model that is written to Hugging Face files and read from them, and what is expected of it.
#pragma once

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/safetensors.h"
#include "support/scratch_directory.h"

namespace fsdp {

using TensorsByName = std::map<std::string, torch::Tensor>;

// Matrices whose memory is row by row and otherwise, buffers of floating and of whole numbers, pieces that end within
// a row on any number of ranks.
struct SmallModelImpl : torch::nn::Module {
  explicit SmallModelImpl(int64_t outputs = 9)
      : first(register_module("first", torch::nn::Linear(37, 21))),
        second(register_module("second", torch::nn::Linear(21, outputs))),
        filter(register_module("filter", torch::nn::Conv2d(3, 5, 3))),
        norm(register_module("norm", torch::nn::BatchNorm1d(21))) {
    torch::NoGradGuard no_grad;
    filter->weight.set_data(filter->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }
  torch::nn::Linear first, second;
  torch::nn::Conv2d filter;
  torch::nn::BatchNorm1d norm;
};
TORCH_MODULE(SmallModel);

// Parameters and buffers, each with values of its own; 16 bits hold them exactly.
inline TensorsByName fill(torch::nn::Module& module, double offset) {
  torch::NoGradGuard no_grad;
  TensorsByName values;
  auto fill_one = [&](const std::string& name, torch::Tensor tensor) {
    tensor.copy_((torch::arange(tensor.numel()) % 97).view(tensor.sizes()) + offset);
    values[name] = tensor.clone();
    ++offset;
  };
  for (auto& named : module.named_parameters()) fill_one(named.key(), named.value());
  for (auto& named : module.named_buffers()) fill_one(named.key(), named.value());
  return values;
}

inline checkpoint::NamedTensors listed(const TensorsByName& tensors) { return {tensors.begin(), tensors.end()}; }

inline void expect_state(ShardedModel& sharded, const TensorsByName& expected) {
  const NamedTensors state = sharded.full_state();
  EXPECT_EQ(state.size(), expected.size());
  for (const auto& [name, tensor] : state) {
    EXPECT_TRUE(torch::equal(tensor, expected.at(name).to(tensor.scalar_type()))) << name;
  }
}

// Runs on rank 0; all ranks wait for it.
template <typename Body>
void on_rank0(World& world, Body body) {
  if (world.rank() == 0) body();
  world.barrier();
}

class Pretrained : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

 private:
  testing::ScratchDirectory directory_;
};

// With the number of ranks.
class PretrainedOnRanks : public Pretrained, public ::testing::WithParamInterface<int> {};

}  // namespace fsdp
