#include "optim/training.h"

namespace fsdp::testing_models {

namespace {

struct TwoLinearsImpl : torch::nn::Module {
  TwoLinearsImpl()
      : always(register_module("always", torch::nn::Linear(9, 9))),
        sometimes(register_module("sometimes", torch::nn::Linear(9, 9))) {}
  torch::Tensor forward(const torch::Tensor& x, bool both) { return both ? sometimes(always(x)) : always(x); }

  torch::nn::Linear always, sometimes;
};

}  // namespace

Weights weights_of(const torch::nn::Module& module) {
  Weights weights;
  for (const auto& parameter : module.named_parameters()) {
    weights.emplace_back(parameter.key(), parameter.value().detach().clone());
  }
  return weights;
}

void run_backward(const TestModel& model, int step, World& world, double scale) {
  for (int64_t b = world.rank(); b < kMicroBatches; b += world.size()) {
    (model.loss(step * kMicroBatches + b) * scale).backward();
  }
}

void run_whole_backward(const TestModel& model, int step) {
  for (int64_t b = 0; b < kMicroBatches; ++b) model.loss(step * kMicroBatches + b).backward();
  for (const auto& parameter : model.module->parameters()) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(1.0 / kMicroBatches);
  }
}

WholeOptimizer::WholeOptimizer(torch::nn::Module& module, WholeUpdate update) : update_(std::move(update)) {
  for (const auto& parameter : module.named_parameters()) {
    const torch::Tensor value = parameter.value().detach();
    WholeParameter& whole = parameters_.emplace_back(parameter.key(), parameter.value(), torch::zeros({}));
    for (int state = 0; state < 3; ++state) whole.states.push_back(torch::zeros_like(value));
  }
}

void WholeOptimizer::step() {
  torch::NoGradGuard no_grad;
  for (WholeParameter& parameter : parameters_) {
    if (!parameter.value.grad().defined()) continue;
    parameter.steps.add_(1);
    update_(parameter);
    parameter.value.mutable_grad().reset();
  }
}

std::vector<std::string> differences_after(int steps, World& world, const std::function<TestModel()>& make,
                                           const MakeOptimizer& make_optimizer, const WholeUpdate& whole_update,
                                           const Options& options) {
  auto model = make(), whole = make();
  auto sharded = shard(*model.module, world, options);
  sharded.set_gradient_divisor(kMicroBatches);
  auto optimizer = make_optimizer(sharded);
  WholeOptimizer reference(*whole.module, whole_update);
  for (int step = 0; step < steps; ++step) {
    run_backward(model, step, world);
    optimizer->step();
    optimizer->zero_grad();
    run_whole_backward(whole, step);
    reference.step();
  }
  return differences(weights_of(*whole.module), whole_weights(*model.module, sharded));
}

TestModel make_two_linears() {
  torch::manual_seed(5);
  auto model = std::make_shared<TwoLinearsImpl>();
  return {model, [model](int64_t b) {
            auto x = torch::randn({4, 9}, torch::make_generator<at::CPUGeneratorImpl>(b));
            return model->forward(x, b / kMicroBatches != 1).pow(2).mean();
          }};
}

}  // namespace fsdp::testing_models
