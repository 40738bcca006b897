// Blocks of many forms: several tensors between them, in place, frozen, recomputed, used twice, tied three times.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <array>
#include <string>
#include <vector>

#include "pipeline/forms.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::expect_form_on_ranks;
using testing_models::FormCase;
using testing_models::four_layers;
using testing_models::input_of;
using testing_models::square_sum;

// Integers, bf16, a tensor that requires no gradient, an input that is handed on, an empty one, and a skip over blocks.
TEST(PipelineForms, SeveralTensorsBetweenBlocks) {
  expect_form_on_ranks([] {
    const auto many = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      const torch::Tensor x = layer.forward(in[0]);
      return {
          x, x.sigmoid().to(torch::kBFloat16), torch::arange(in[0].size(0)), x.detach() * 2, in[0], torch::empty({0})};
    };
    const auto pass = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      const torch::Tensor x = layer.forward(in[0]).tanh() + in[3] + in[2].unsqueeze(1);
      return {x + in[0], in[1], in[2], in[3], in[4] + in[1].to(torch::kFloat32), in[5]};
    };
    const auto join = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(in[0] * in[1].to(torch::kFloat32)) + in[4] - in[3] + in[5].sum()};
    };
    return four_layers({many, pass, pass, join});
  });
}

// Rows that depend on the values.
TEST(PipelineForms, ShapesThatDependOnTheData) {
  expect_form_on_ranks([] {
    const auto choose = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      const torch::Tensor x = layer.forward(in[0]);
      return {x, x.flatten().masked_select(x.flatten() > 0)};
    };
    const auto use = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(in[0]) + in[1].sum(), in[1] * 2};
    };
    const auto last = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(in[0]) * in[1].mean()};
    };
    return four_layers({choose, use, use, last});
  });
}

// Lists that are shorter and longer than the list before, and too long for one message.
TEST(PipelineForms, ListsOfManyLengths) {
  expect_form_on_ranks([] {
    const auto lengthen = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      constexpr std::array<int64_t, 3> kLengths{1, 3'000, 100'000};
      const int64_t length = kLengths.at(in[0].size(0) - 1);
      const torch::Tensor x = layer.forward(in[0]);
      return {x, torch::arange(length).to(torch::kFloat32) / static_cast<double>(length), x.sum().expand({length})};
    };
    const auto pass = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(in[0]), in[1] + 1, in[2] * in[1]};
    };
    const auto join = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(in[0] + in[1].mean() + in[2].mean())};
    };
    return four_layers({lengthen, pass, pass, join});
  });
}

TEST(PipelineForms, BlocksThatChangeTheirInputInPlace) {
  expect_form_on_ranks([] {
    const auto in_place = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      torch::Tensor x = in[0];
      return {layer.forward(x.relu_())};
    };
    return four_layers({nullptr, in_place, in_place, in_place});
  });
}

TEST(PipelineForms, FrozenBlocks) {
  for (const std::string frozen : {"a", "b", "ab", "bd", "abc"}) {
    expect_form_on_ranks([&] {
      FormCase form = four_layers({});
      form.prepare = [frozen](torch::nn::Module& block, const std::string& name) {
        for (torch::Tensor& parameter : block.parameters())
          parameter.requires_grad_(frozen.find(name) == std::string::npos);
      };
      return form;
    });
  }
}

TEST(PipelineForms, RecomputedBlocks) {
  expect_form_on_ranks([] {
    const auto recomputed = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {
          activation_checkpoint([&layer](const torch::Tensor& x) { return layer.forward(x).tanh().sigmoid(); }, in[0])};
    };
    return four_layers({recomputed, recomputed, nullptr, recomputed});
  });
}

TEST(PipelineForms, AWeightThatIsUsedTwice) {
  expect_form_on_ranks([] {
    const auto twice = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(layer.forward(in[0]).tanh())};
    };
    return four_layers({nullptr, twice, nullptr, twice});
  });
}

// In blocks a, b and d, and twice within b: the sums have the order of one process.
TEST(PipelineForms, AWeightInThreeBlocks) {
  expect_form_on_ranks([] {
    const auto twice = [](torch::nn::LinearImpl& layer, const Tensors& in) -> Tensors {
      return {layer.forward(layer.forward(in[0]).tanh())};
    };
    FormCase form = four_layers({nullptr, twice, nullptr, nullptr});
    form.blocks[1].shares = {{"weight", "a.weight"}, {"bias", "a.bias"}};
    form.blocks[3].shares = {{"weight", "b.weight"}, {"bias", "a.bias"}};
    form.modules = {0, 0, 2, 0};
    return form;
  });
}

TEST(PipelineForms, AFrozenWeightInTwoBlocks) {
  expect_form_on_ranks([] {
    FormCase form = four_layers({});
    form.blocks[3].shares = {{"weight", "a.weight"}, {"bias", "a.bias"}};
    form.modules = {0, 1, 2, 0};
    form.prepare = [](torch::nn::Module& block, const std::string& name) {
      for (torch::Tensor& parameter : block.parameters()) parameter.requires_grad_(name != "a" && name != "d");
    };
    return form;
  });
}

// Evaluations between steps change nothing, and return the outputs on the rank of the last stage.
TEST(PipelineForms, Evaluation) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(1);
    const FormCase form = four_layers({});
    Pipeline pipeline(form.blocks, world, {.schedule = PipelineSchedule::Interleaved, .stages_per_rank = 2});
    torch::manual_seed(1);
    std::vector<std::shared_ptr<torch::nn::Module>> modules;
    for (const PipelineBlock& block : form.blocks) modules.push_back(block.make());
    const Tensors inputs{input_of(0), input_of(1), input_of(2)};
    const Tensors outputs = pipeline.forward(world.rank() == 0 ? inputs : Tensors());
    ASSERT_EQ(outputs.size(), world.rank() == 1 ? 3 : 0);
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensors expected{inputs[i]};
      for (size_t block = 0; block < modules.size(); ++block)
        expected = form.blocks[block].forward(*modules[block], expected);
      EXPECT_TRUE(torch::equal(outputs[i], expected[0]));
      EXPECT_FALSE(outputs[i].requires_grad());
    }
  });
}

TEST(PipelineForms, CutsFollowCosts) {
  run_ranks(2, [](World& world) {
    FormCase form = four_layers({});
    for (size_t i = 0; i < 4; ++i) form.blocks[i].cost = i == 0 ? 6 : 2;
    Pipeline pipeline(form.blocks, world);
    EXPECT_THAT(pipeline.report().cuts, ::testing::ElementsAre(1, 3));
    const Tensors batches{input_of(0), input_of(1)};
    pipeline.step(batches, batches, square_sum);
    const PipelineReport& report = pipeline.report();
    EXPECT_EQ(report.micro_batches, 2);
    EXPECT_EQ(report.costs.size(), 4);
    for (double cost : report.costs) EXPECT_GT(cost, 0);
    EXPECT_DOUBLE_EQ(report.idle_share_formula, 1.0 / 3);
    EXPECT_GT(report.idle_share, 0);
    EXPECT_LT(report.idle_share, 1);
    EXPECT_THAT(report.schedule, ::testing::HasSubstr("0F0,0SEND_F0,0F1,0SEND_F1,"));
  });
}

}  // namespace
}  // namespace fsdp
