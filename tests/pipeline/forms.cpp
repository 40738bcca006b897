#include "pipeline/forms.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "support/run_ranks.h"

namespace fsdp::testing_models {

namespace {

using fsdp::testing::run_ranks;

constexpr int kFormBatches = 5, kFormSteps = 3;

struct FormResult {
  std::vector<double> losses;
  std::vector<std::pair<std::string, torch::Tensor>> values;  // of parameters and buffers, by name
};

void add_values(FormResult& result, const std::string& prefix, const torch::nn::Module& module) {
  for (const auto& one : module.named_parameters()) result.values.emplace_back(prefix + one.key(), one.value());
  for (const auto& one : module.named_buffers()) result.values.emplace_back(prefix + one.key(), one.value());
}

torch::optim::SGD form_optimizer(std::vector<torch::Tensor> parameters) {
  return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
}

// As small_gpt.cpp: a step draws one number, and seeds each block.
uint64_t next_step_number() {
  auto generator = at::detail::getDefaultCPUGenerator();
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

FormResult train_form_plainly(const FormCase& form) {
  torch::manual_seed(1);
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  for (const PipelineBlock& block : form.blocks) modules.push_back(block.make());
  for (size_t i = 0; i < form.modules.size(); ++i) modules[i] = modules[form.modules[i]];
  FormResult result;
  std::vector<torch::Tensor> trained;
  for (size_t i = 0; i < modules.size(); ++i) {
    form.prepare(*modules[i], form.blocks[i].name);
    add_values(result, form.blocks[i].name + ".", *modules[i]);
    const bool is_first = form.modules.empty() || form.modules[i] == i;
    for (const torch::Tensor& parameter : modules[i]->parameters()) {
      if (is_first) trained.push_back(parameter);
    }
  }
  torch::optim::SGD optimizer = form_optimizer(trained);
  for (int step = 0; step < kFormSteps; ++step) {
    form.before_step(trained, step);
    const uint64_t number = next_step_number();
    const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    double sum = 0;
    form.around([&] {
      for (int batch = 0; batch < kFormBatches; ++batch) {
        Tensors tensors{input_of(step + batch)};
        for (size_t i = 0; i < modules.size(); ++i) {
          seed_micro_batch(number, batch, static_cast<int64_t>(i));
          tensors = form.blocks[i].forward(*modules[i], tensors);
        }
        seed_micro_batch(number, batch, static_cast<int64_t>(modules.size()));
        const torch::Tensor loss = form.loss(tensors.at(0), input_of(step + batch));
        sum += loss.item<double>();
        (loss / kFormBatches).backward();
      }
    });
    at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state);
    result.losses.push_back(sum / kFormBatches);
    optimizer.step();
    if (!form.accumulates) optimizer.zero_grad();
  }
  return result;
}

}  // namespace

torch::Tensor input_of(int number) {
  return torch::arange((1 + number % 3) * kFormWidth, torch::kFloat32).view({-1, kFormWidth}).add(number).sin();
}

torch::Tensor square_sum(const torch::Tensor& output, const torch::Tensor& target) {
  return (output - 2 * target).square().mean();
}

void expect_form(World& world, const FormCase& form, const PipelineOptions& options) {
  const FormResult expected = train_form_plainly(form);
  torch::manual_seed(1);
  Pipeline pipeline(form.blocks, world, options);
  for (const PipelineBlock& block : form.blocks) {
    const auto children = pipeline.stage().named_children();
    if (children.contains(block.name)) form.prepare(*children[block.name], block.name);
  }
  torch::optim::SGD optimizer = form_optimizer(pipeline.stage().parameters());
  std::vector<double> losses;
  for (int step = 0; step < kFormSteps; ++step) {
    form.before_step(pipeline.stage().parameters(), step);
    Tensors inputs, targets;
    for (int batch = 0; batch < kFormBatches; ++batch) {
      inputs.push_back(input_of(step + batch));
      targets.push_back(input_of(step + batch));
    }
    form.around([&] { losses.push_back(pipeline.step(inputs, targets, form.loss)); });
    optimizer.step();
    if (!form.accumulates) optimizer.zero_grad();
  }
  EXPECT_EQ(losses, expected.losses);
  FormResult found;
  add_values(found, "", pipeline.stage());
  for (const auto& [name, value] : found.values) {
    bool exists = false;
    for (const auto& [other, plain] : expected.values) {
      if (other != name) continue;
      exists = true;
      EXPECT_TRUE(torch::equal(value, plain)) << name;
    }
    EXPECT_TRUE(exists) << name;
  }
}

void expect_form_on_ranks(const std::function<FormCase()>& make) {
  using enum PipelineSchedule;
  run_ranks(1, [&](World& world) { expect_form(world, make(), {}); });
  run_ranks(2, [&](World& world) { expect_form(world, make(), {.schedule = ZeroBubble}); });
  run_ranks(2, [&](World& world) { expect_form(world, make(), {.schedule = Interleaved, .stages_per_rank = 2}); });
  run_ranks(3, [&](World& world) { expect_form(world, make(), {}); });
}

FormCase four_layers(const std::vector<FormForward>& forwards) {
  FormCase form;
  for (size_t i = 0; i < 4; ++i) {
    form.blocks.push_back(
        pipeline_block<torch::nn::LinearImpl>(std::string(1, static_cast<char>('a' + i)), kFormWidth, kFormWidth));
    if (i < forwards.size() && forwards[i]) {
      form.blocks[i].forward = [forward = forwards[i]](torch::nn::Module& module, const Tensors& inputs) {
        return forward(*module.as<torch::nn::LinearImpl>(), inputs);
      };
    }
  }
  return form;
}

}  // namespace fsdp::testing_models
