// The rule of docs/determinism.md on one unsharded process: what every sharded run must equal bit for bit.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/optim.h"
#include "optim/block8_rule.h"
#include "optim/state_format.h"
#include "support/models.h"

namespace fsdp::testing_models {

struct Training {
  int steps = 10;
  int64_t micro_batches = 1;  // per step, over all ranks
  double clip = 0;            // 0: none
  double clip_norm_type = 2.0;
  double lr = 1e-2;
  std::optional<torch::ScalarType> param_dtype = std::nullopt;  // the model runs in copies of this dtype
  StateDtype state_dtype = StateDtype::Float32;
  int in_backward_every = 0;  // of so many steps on ranks, the last begins inside its last backward; 0: none
};

using Weights = std::vector<std::pair<std::string, torch::Tensor>>;

// One step of AdamW or Adam on a whole parameter whose moments are kept in blocks of 8 bits; here they are what these
// stand for, in fp32.
void step_in_blocks(const torch::Tensor& parameter, const torch::Tensor& gradient, const torch::Tensor& first,
                    const torch::Tensor& second, const torch::Tensor& steps, const optim::Settings& with,
                    optim::WeightDecay decay, bool maximize = false);

// Does to a whole state, in the order of its memory, what it loses when an optimizer keeps it in that format.
void keep_as(const optim::StateFormat& format, const torch::Tensor& state);

// A module that is trained whole, in fp32; it runs in the dtypes that its parameters had. A parameter without a
// gradient in a step (frozen, unused) is skipped and keeps its own step count; a tied one is there once.
class Unsharded {
 public:
  Unsharded(std::shared_ptr<torch::nn::Module> module, const Training& training);

  // One micro-batch: its gradient apart, then added to the sum in fp32.
  void add(const std::function<torch::Tensor()>& loss);
  // Scales the sum, by 1 / loss_scale as well, clips it and makes one fused AdamW step on whole fp32 parameters; ends
  // the sum. Returns the norm before clipping, 0 where the training does not clip.
  double step(double loss_scale = 1);
  // Ends the sum without a step.
  void skip() { sum_.assign(sum_.size(), {}); }
  // The parameters' own tensors, by the first of their names.
  const Weights& weights() const { return weights_; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Training training_;
  Weights weights_;
  std::vector<torch::ScalarType> dtypes_;  // of each weight while the module runs
  std::vector<torch::Tensor> sum_, first_moments_, second_moments_, step_counts_;  // one for each weight
};

// Trains to the end, and returns copies of the weights, on the CPU.
Weights train_unsharded(const TestModel& model, const Training& training);

// Names of the weights whose bits differ; empty when all are equal.
std::vector<std::string> differences(const Weights& expected, const Weights& found);

}  // namespace fsdp::testing_models
