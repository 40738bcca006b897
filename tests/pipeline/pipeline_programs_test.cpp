// Programs around a pipeline: hooks, guards, losses, dtypes and strides that one process takes.
#include <ATen/autocast_mode.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "pipeline/forms.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
using testing_models::expect_form_on_ranks;
using testing_models::FormCase;
using testing_models::four_layers;
using testing_models::input_of;
using testing_models::kFormWidth;
using testing_models::square_sum;

// Blocks a and d share their parameters.
FormCase tied_layers() {
  FormCase form = four_layers({});
  form.blocks[3].shares = {{"weight", "a.weight"}, {"bias", "a.bias"}};
  form.modules = {0, 1, 2, 0};
  return form;
}

void halve_gradients(torch::nn::Module& block) {
  for (torch::Tensor& parameter : block.parameters())
    parameter.register_hook([](const torch::Tensor& gradient) { return gradient * 0.5; });
}

TEST(PipelinePrograms, HooksOfParameters) {
  expect_form_on_ranks([] {
    FormCase form = four_layers({});
    form.prepare = [](torch::nn::Module& block, const std::string&) { halve_gradients(block); };
    return form;
  });
}

// The first block's copy has the whole gradient, so its hooks see it.
TEST(PipelinePrograms, HooksOfATiedParameter) {
  expect_form_on_ranks([] {
    FormCase form = tied_layers();
    form.prepare = [](torch::nn::Module& block, const std::string& name) {
      if (name == "a") halve_gradients(block);
    };
    return form;
  });
}

TEST(PipelinePrograms, RecomputedDropout) {
  expect_form_on_ranks([] {
    const auto recomputed = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      const auto drop = [&layer](const torch::Tensor& x) { return torch::dropout(layer.forward(x), 0.3, true).tanh(); };
      return {activation_checkpoint(drop, in[0])};
    };
    return four_layers({recomputed, recomputed, recomputed, nullptr});
  });
}

struct NormBlockImpl : torch::nn::Module {
  NormBlockImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(kFormWidth));
    layer = register_module("layer", torch::nn::Linear(kFormWidth, kFormWidth));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layer(norm(torch::cat({x, 2 * x})).slice(0, 0, x.size(0))); }
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Linear layer = nullptr;
};

TEST(PipelinePrograms, RunningStatistics) {
  expect_form_on_ranks([] {
    FormCase form = four_layers({});
    for (size_t i = 0; i < 4; ++i) form.blocks[i] = pipeline_block<NormBlockImpl>(form.blocks[i].name);
    return form;
  });
}

TEST(PipelinePrograms, LossesOfManyForms) {
  const std::vector<std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>> losses{
      [](const torch::Tensor& output, const torch::Tensor& target) { return square_sum(output, target).view({1}); },
      [](const torch::Tensor& output, const torch::Tensor& target) {
        return square_sum(output + torch::rand_like(output), target);
      },
      [](const torch::Tensor& output, const torch::Tensor& target) {
        thread_local torch::Tensor kept;  // the rank keeps the last one
        kept = output;
        return square_sum(output, target).to(torch::kHalf);
      },
      [](const torch::Tensor& output, const torch::Tensor& target) {
        return square_sum(output, target).to(torch::kFloat64) * 3;
      },
      [](const torch::Tensor& output, const torch::Tensor& target) {
        torch::Tensor changed = output;
        return changed.mul_(2).sub_(target).square().mean();
      },
  };
  for (const auto& loss : losses) {
    expect_form_on_ranks([&] {
      FormCase form = four_layers({});
      form.loss = loss;
      return form;
    });
  }
}

// LibTorch's cache would hold one cast of the tied weight in one process, and add both blocks' gradients in bf16.
TEST(PipelinePrograms, Autocast) {
  for (const bool tied : {false, true}) {
    expect_form_on_ranks([&] {
      FormCase form = tied ? tied_layers() : four_layers({});
      form.loss = [](const torch::Tensor& output, const torch::Tensor& target) {
        return square_sum(output.to(torch::kFloat32), target);
      };
      form.around = [tied](const std::function<void()>& passes) {
        at::autocast::set_autocast_enabled(at::kCPU, true);
        at::autocast::set_autocast_cache_enabled(!tied);
        passes();
        at::autocast::clear_cache();
        at::autocast::set_autocast_cache_enabled(true);
        at::autocast::set_autocast_enabled(at::kCPU, false);
      };
      return form;
    });
  }
}

TEST(PipelinePrograms, ParametersInBf16) {
  expect_form_on_ranks([] {
    FormCase form = tied_layers();
    for (PipelineBlock& block : form.blocks) {
      block.make = [make = block.make] {
        auto module = make();
        module->to(torch::kBFloat16);
        return module;
      };
    }
    form.blocks[0].forward = [](torch::nn::Module& module, const Tensors& in) -> Tensors {
      return {module.as<torch::nn::LinearImpl>()->forward(in[0].to(torch::kBFloat16))};
    };
    return form;
  });
}

TEST(PipelinePrograms, GradientsThatStayBetweenSteps) {
  expect_form_on_ranks([] {
    FormCase form = tied_layers();
    form.accumulates = true;
    return form;
  });
}

TEST(PipelinePrograms, BiasesThatAreFrozenInOneStep) {
  expect_form_on_ranks([] {
    FormCase form = tied_layers();
    form.before_step = [](const std::vector<torch::Tensor>& parameters, int step) {
      for (const torch::Tensor& parameter : parameters)
        if (parameter.dim() == 1) torch::Tensor(parameter).requires_grad_(step != 1);
    };
    return form;
  });
}

TEST(PipelinePrograms, TiedParametersThatAreMadeFrozen) {
  expect_form_on_ranks([] {
    FormCase form = tied_layers();
    for (const size_t i : {0, 3}) {
      form.blocks[i].make = [make = form.blocks[i].make] {
        auto module = make();
        for (torch::Tensor& parameter : module->parameters()) parameter.requires_grad_(false);
        return module;
      };
    }
    form.before_step = [](const std::vector<torch::Tensor>& parameters, int step) {
      for (const torch::Tensor& parameter : parameters) torch::Tensor(parameter).requires_grad_(step > 0);
    };
    // Step 0 has to train a parameter.
    form.loss = [](const torch::Tensor& output, const torch::Tensor& target) {
      return square_sum(output, target) + torch::ones({}, torch::requires_grad());
    };
    return form;
  });
}

// A kernel's bits may depend on strides. These blocks' results show them.
torch::Tensor less_if_contiguous(const torch::Tensor& x) { return x.is_contiguous() ? x * 0.5 : x * 0.25; }

TEST(PipelinePrograms, StridesOfOutputs) {
  const std::vector<std::function<torch::Tensor(const torch::Tensor&)>> forms{
      [](const torch::Tensor& x) { return x.t(); },
      [](const torch::Tensor& x) {
        return torch::cat({x, x}, 1).t().slice(0, 0, kFormWidth);
      },
      [](const torch::Tensor& x) {
        return x.sum(0, true).expand({3, kFormWidth}).t();
      },
      [](const torch::Tensor& x) {
        return x.unsqueeze(0).expand({2, -1, -1}).permute({2, 0, 1}).select(1, 1);
      },
  };
  for (const auto& strided : forms) {
    expect_form_on_ranks([&] {
      const auto transposed = [strided](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
        return {strided(layer.forward(less_if_contiguous(in[0]).t()))};
      };
      const auto first = [strided](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
        return {strided(layer.forward(in[0]))};
      };
      FormCase form = four_layers({first, transposed, transposed, transposed});
      form.loss = [](const torch::Tensor& output, const torch::Tensor& target) {
        return square_sum(output.t(), target.slice(0, 0, 1));
      };
      return form;
    });
  }
}

TEST(PipelinePrograms, StridesOfGradients) {
  expect_form_on_ranks([] {
    // The gradient of the input is not contiguous.
    const auto transposed = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      const torch::Tensor x = layer.forward((in[0].t() / torch::arange(1, in[0].size(0) + 1)).t());
      x.register_hook(less_if_contiguous);
      return {x};
    };
    return four_layers({transposed, transposed, transposed, transposed});
  });
}

TEST(PipelinePrograms, StepsWithoutGradientsOfTheCaller) {
  run_ranks(2, [](World& world) {
    const Tensors batches(3, input_of(1));
    std::vector<torch::Tensor> gradients[2];
    for (const bool guarded : {false, true}) {
      torch::manual_seed(1);
      Pipeline pipeline(four_layers({}).blocks, world);
      const torch::AutoGradMode mode(!guarded);
      pipeline.step(batches, batches, square_sum);
      for (const torch::Tensor& parameter : pipeline.stage().parameters())
        gradients[guarded].push_back(parameter.grad());
      EXPECT_EQ(torch::GradMode::is_enabled(), !guarded);
    }
    for (size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(torch::equal(gradients[0][i], gradients[1][i]));
  });
}

TEST(PipelinePrograms, InferenceModeHasNoStep) {
  run_ranks(2, [](World& world) {
    const Tensors batches(3, input_of(1));
    Pipeline pipeline(four_layers({}).blocks, world);
    {
      const c10::InferenceMode inference;
      EXPECT_EQ(pipeline.forward(batches).size(), world.rank() == 1 ? 3 : 0);
      EXPECT_THAT(message_of([&] { pipeline.step(batches, batches, square_sum); }), HasSubstr("InferenceMode"));
    }
    pipeline.step(batches, batches, square_sum);
  });
}

// A part of the model in front of the pipeline, on the first rank.
TEST(PipelinePrograms, InputsThatRequireGradients) {
  using enum PipelineSchedule;
  for (const PipelineSchedule schedule : {OneForwardOneBackward, ZeroBubble}) {
    run_ranks(2, [&](World& world) {
      const auto make_front = [] { return torch::arange(kFormWidth, torch::kFloat32).requires_grad_(); };
      const torch::Tensor plain = make_front(), front = make_front(), leaf = input_of(1).requires_grad_();
      torch::manual_seed(1);
      std::vector<std::shared_ptr<torch::nn::Module>> modules;
      const FormCase form = four_layers({});
      for (const PipelineBlock& block : form.blocks) modules.push_back(block.make());
      const torch::Tensor plain_leaf = input_of(1).requires_grad_();
      for (int i = 0; i < 3; ++i) {
        Tensors x{i == 1 ? plain_leaf : input_of(i) * plain};
        for (size_t block = 0; block < 4; ++block) x = form.blocks[block].forward(*modules[block], x);
        (square_sum(x[0], input_of(i)) / 3).backward();
      }
      torch::manual_seed(1);
      Pipeline pipeline(form.blocks, world, {.schedule = schedule});
      pipeline.step({input_of(0) * front, leaf, input_of(2) * front}, {input_of(0), input_of(1), input_of(2)},
                    square_sum);
      if (world.rank() != 0) return;
      EXPECT_TRUE(front.grad().defined() && torch::equal(front.grad(), plain.grad()));
      EXPECT_TRUE(leaf.grad().defined() && torch::equal(leaf.grad(), plain_leaf.grad()));
    });
  }
}

TEST(PipelinePrograms, CopiesThatDifferInRequiresGradAreAnError) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(1);
    Pipeline pipeline(tied_layers().blocks, world);
    const auto set = [&](bool trained) {
      for (torch::Tensor& parameter : pipeline.stage().parameters()) parameter.requires_grad_(trained);
    };
    const Tensors batches(3, input_of(1));
    for (const int frozen : {0, 1}) {
      set(world.rank() != frozen);
      EXPECT_THAT(message_of([&] { pipeline.step(batches, batches, square_sum); }),
                  HasSubstr("a.bias and d.bias are copies of one parameter, and require gradients on rank " +
                            std::to_string(1 - frozen)));
    }
    set(true);
    pipeline.step(batches, batches, square_sum);
  });
}

TEST(PipelinePrograms, TiedCopiesOfOtherSeedsAreAnError) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(world.rank());
    Pipeline pipeline(tied_layers().blocks, world);
    const Tensors batches(3, input_of(1));
    EXPECT_THAT(message_of([&] { pipeline.step(batches, batches, square_sum); }), HasSubstr("torch::manual_seed"));
  });
}

// A data loader on one rank draws numbers of its own.
TEST(PipelinePrograms, TheFirstRanksGeneratorCounts) {
  run_ranks(2, [](World& world) {
    const auto drop = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {torch::dropout(layer.forward(in[0]), 0.5, true)};
    };
    const Tensors batches(3, input_of(2));
    double losses[2];
    for (const bool draws : {false, true}) {
      torch::manual_seed(1);
      Pipeline pipeline(four_layers({drop, drop, drop, drop}).blocks, world);
      if (draws && world.rank() == 1) torch::rand({5});
      losses[draws] = pipeline.step(batches, batches, square_sum);
    }
    EXPECT_EQ(losses[0], losses[1]);
  });
}

// 64 MiB each way at once.
TEST(PipelinePrograms, LongMessages) {
  for (const char* backend : {"shm", "gloo"}) {
    auto options = fsdp::testing::test_options();
    options.backend = backend;
    run_ranks(
        2,
        [](World& world) {
          const auto widen = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
            return {layer.forward(in[0]).repeat({1, int64_t{1} << 21})};
          };
          const auto narrow = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
            return {layer.forward(in[0].slice(1, 0, kFormWidth))};
          };
          Pipeline pipeline(four_layers({nullptr, widen, narrow, nullptr}).blocks, world);
          const Tensors batches(4, torch::ones({1, kFormWidth}));
          EXPECT_GT(pipeline.step(batches, batches, square_sum), 0);
        },
        options);
  }
}

TEST(PipelinePrograms, TwoPipelinesOnOneAxis) {
  run_ranks(2, [](World& world) {
    const Tensors batches(3, input_of(1));
    const auto make = [&] {
      torch::manual_seed(1);
      return Pipeline(tied_layers().blocks, world);
    };
    Pipeline alone = make(), first = make(), second = make();
    for (int step = 0; step < 2; ++step) {
      const double expected = alone.step(batches, batches, square_sum);
      EXPECT_EQ(first.step(batches, batches, square_sum), expected);
      EXPECT_EQ(second.step(batches, batches, square_sum), expected);
    }
  });
}

TEST(PipelinePrograms, TooManyMicroBatchesAreAnErrorEachTime) {
  run_ranks(1, [](World& world) {
    Pipeline pipeline(four_layers({}).blocks, world);
    const Tensors batches(int64_t{1} << 21, input_of(0));
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(message_of([&] { pipeline.step(batches, batches, square_sum); }), HasSubstr("micro-batches"));
    }
  });
}

}  // namespace
}  // namespace fsdp
