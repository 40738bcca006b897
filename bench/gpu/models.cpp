// Compares models that the library was not written for with plain LibTorch on this device, bit by bit, for
// scripts/gpu-check. Prints one line for each kind of model, and exits with 1 if one differs.
#include <fsdp/fsdp.h>
#include <torch/torch.h>

#include <ATen/Context.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <stdexcept>

#include "kinds.h"

namespace {

using torch::Tensor;

constexpr int kSteps = 4, kMicroBatches = 2;  // as many as ranks at most, so that sums have one order
const torch::optim::AdamWOptions kAdamW = torch::optim::AdamWOptions(1e-2).weight_decay(1e-2);

std::shared_ptr<torch::nn::Module> make(const gpu::Kind& kind, const torch::Device& device) {
  torch::manual_seed(1);
  auto model = kind.make();
  model->to(device);
  return model;
}

std::map<std::string, Tensor> plain_weights(const gpu::Kind& kind, const torch::Device& device) {
  const auto model = make(kind, device);
  std::vector<Tensor> trained;
  for (const Tensor& parameter : model->parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  torch::optim::AdamW optimizer(trained, kAdamW);
  for (int step = 0; step < kSteps; ++step) {
    for (int b = 0; b < kMicroBatches; ++b) kind.loss(*model, step * kMicroBatches + b).backward();
    for (Tensor& parameter : trained) {
      if (parameter.grad().defined()) parameter.mutable_grad().mul_(1.0f / kMicroBatches);
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  std::map<std::string, Tensor> weights;
  for (const auto& named : model->named_parameters()) weights[named.key()] = named.value().detach().cpu();
  return weights;
}

fsdp::NamedTensors sharded_weights(const gpu::Kind& kind, fsdp::World& world) {
  const auto model = make(kind, world.device());
  auto sharded = fsdp::shard(*model, world);
  torch::optim::AdamW optimizer(sharded.shards(), kAdamW);
  sharded.set_gradient_divisor(kMicroBatches);
  for (int step = 0; step < kSteps; ++step) {
    for (int b = world.rank(); b < kMicroBatches; b += world.size()) {
      kind.loss(*model, step * kMicroBatches + b).backward();
    }
    optimizer.step();
    sharded.zero_grad();
  }
  return sharded.full_state();
}

// "the same bits", or how many weights differ, and by how much.
std::string compare(const gpu::Kind& kind, fsdp::World& world) {
  const fsdp::NamedTensors found = sharded_weights(kind, world);
  const std::map<std::string, Tensor> expected = plain_weights(kind, world.device());
  int64_t differ = 0, all = 0;
  double largest = 0;
  for (const auto& [name, tensor] : found) {
    if (!expected.contains(name)) continue;  // a buffer
    const Tensor difference = (tensor.cpu() - expected.at(name)).abs();
    all += difference.numel();
    differ += difference.ne(0).sum().item<int64_t>();
    largest = std::max(largest, difference.max().item<double>());
  }
  if (all == 0) throw std::runtime_error("no parameter was compared");
  if (differ == 0) return "the same bits";
  return fmt::format("{} of {} weights differ, by {:.1e} at most", differ, all, largest);
}

void make_deterministic() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

}  // namespace

int main(int argc, char** argv) {
  fsdp::LaunchOptions launch;
  CLI::App app("Bits of several kinds of models, beside plain LibTorch");
  app.add_option("--ranks", launch.ranks)->check(CLI::Range(1, kMicroBatches));
  app.add_option("--backend", launch.backend);
  CLI11_PARSE(app, argc, argv);
  return fsdp::launch(launch, [](fsdp::World& world) {
    make_deterministic();
    bool same = true;
    for (const gpu::Kind& kind : gpu::all_kinds()) {
      const std::string found = compare(kind, world);
      same &= found == "the same bits";
      if (world.rank() == 0) std::cout << "RESULT " << kind.name << ": " << found << std::endl;
    }
    if (!same) throw std::runtime_error("weights differ from those of plain LibTorch");
  });
}
