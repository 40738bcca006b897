// A model drawn from a seed: blocks of random layers in lists, sequences and alone, some called several times, some
// never; tied weights and frozen parameters.
#pragma once

#include <fsdp/activation_checkpoint.h>

#include <optional>
#include <string>

#include "property/random_layers.h"
#include "support/models.h"

namespace fsdp::property {

struct Block : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x);
  torch::Tensor compute(const torch::Tensor& x);

  std::optional<ActivationCheckpointOptions> recomputed;  // how, if it is
  std::vector<std::shared_ptr<Layer>> layers;
  std::shared_ptr<torch::nn::SequentialImpl> inner;  // smaller blocks, in some
};

struct RandomModel {
  testing_models::TestModel model;
  std::string words;  // what it is made of
};

// The structure comes from `seed`, the weights from `weights_seed`.
RandomModel make_random_model(uint64_t seed, uint64_t weights_seed);

}  // namespace fsdp::property
