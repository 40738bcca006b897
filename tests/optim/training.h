// Steps of training for tests of optimizers: over ranks, and on whole parameters in one process as the oracle.
#pragma once

#include <fsdp/fsdp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/models.h"
#include "support/oracle.h"
#include "support/train_sharded.h"

namespace fsdp::testing_models {

constexpr int64_t kMicroBatches = 12;  // per step, over all ranks: as many for each of 1, 2, 3, 4 ranks

Weights weights_of(const torch::nn::Module& module);

// This rank's micro-batches of a step; the losses are multiplied by `scale`.
void run_backward(const TestModel& model, int step, World& world, double scale = 1);
// The gradients of all micro-batches of a step, on whole parameters.
void run_whole_backward(const TestModel& model, int step);

struct WholeParameter {
  std::string name;
  torch::Tensor value;                // with its gradient
  torch::Tensor steps;                // this one included
  std::vector<torch::Tensor> states;  // three, like the value, zero at first
};
// One step of one parameter.
using WholeUpdate = std::function<void(WholeParameter& parameter)>;

// An optimizer on the whole parameters of a module, one after the other.
class WholeOptimizer {
 public:
  WholeOptimizer(torch::nn::Module& module, WholeUpdate update);
  // Those that have a gradient; ends without any.
  void step();

 private:
  std::vector<WholeParameter> parameters_;
  WholeUpdate update_;
};

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ShardedModel&)>;

// Trains over the ranks and whole, and gives the names of the weights whose bits differ in the end.
std::vector<std::string> differences_after(int steps, World& world, const std::function<TestModel()>& make,
                                           const MakeOptimizer& make_optimizer, const WholeUpdate& whole_update,
                                           const Options& options = {});

// Two linear layers, always.{weight,bias} and sometimes.{weight,bias}; the second has no gradient in step 1.
TestModel make_two_linears();

}  // namespace fsdp::testing_models
