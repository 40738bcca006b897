#include "support/scripted_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace fsdp::testing_models {

using torch::Tensor;

namespace {

constexpr int64_t kScriptedWidth = 15;

torch::jit::Module make_block() {
  torch::jit::Module block("Block");
  block.register_parameter("weight", torch::randn({kScriptedWidth, kScriptedWidth}, torch::requires_grad()), false);
  block.register_parameter("bias", torch::randn({kScriptedWidth}, torch::requires_grad()), false);
  block.define("def forward(self, x):\n  return x + torch.tanh(torch.linear(x, self.weight, self.bias)) * 0.5\n");
  return block;
}

Tensor loss(torch::jit::Module& model, int64_t micro_batch) {
  const auto generator = torch::make_generator<at::CPUGeneratorImpl>(micro_batch);
  return model.forward({torch::randint(0, 7, {4, 5}, generator, torch::kInt64)}).toTensor();
}

}  // namespace

torch::jit::Module make_scripted() {
  torch::manual_seed(14);
  torch::jit::Module blocks("ModuleList"), model("Model");
  for (int64_t i = 0; i < kScriptedBlocks; ++i) blocks.register_module(std::to_string(i), make_block());
  model.register_module("blocks", blocks);
  const Tensor tied = torch::randn({7, kScriptedWidth}, torch::requires_grad());
  model.register_parameter("input", tied, false);
  model.register_parameter("head", tied, false);
  std::string text = "def forward(self, tokens):\n  x = torch.embedding(self.input, tokens)\n";
  for (int64_t i = 0; i < kScriptedBlocks; ++i) {
    text += fmt::format("  x = getattr(self.blocks, \"{}\").forward(x)\n", i);
  }
  model.define(text + "  return torch.linear(x, self.head).pow(2).mean()\n");
  return model;
}

TestModel as_native(torch::jit::Module& model) {
  auto holder = std::make_shared<torch::nn::Module>();
  for (const auto& parameter : model.named_parameters()) {
    std::string name = parameter.name;
    std::replace(name.begin(), name.end(), '.', '_');
    holder->register_parameter(name, parameter.value, parameter.value.requires_grad());
  }
  return {holder, [&model](int64_t b) { return loss(model, b); }};
}

void warm_up(torch::jit::Module& model) {
  for (int64_t run = 0; run < 3; ++run) loss(model, 100 + run).backward();
}

}  // namespace fsdp::testing_models
