// Failures of a pipeline name rank, stage and micro-batch.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <string>

#include "pipeline/small_gpt.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using fsdp::testing::RunResult;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Blocks a, b, c of one linear layer each; `before` is called before the forward of each of them.
using BeforeForward = std::function<void(const std::string& block)>;
std::vector<PipelineBlock> three_layers(const BeforeForward& before = [](const std::string&) {}) {
  std::vector<PipelineBlock> blocks;
  for (const char* name : {"a", "b", "c"}) {
    blocks.push_back(pipeline_block<torch::nn::LinearImpl>(name, 4, 4));
    blocks.back().forward = [inner = blocks.back().forward, before, name](torch::nn::Module& module,
                                                                          const Tensors& inputs) {
      before(name);
      return inner(module, inputs);
    };
  }
  return blocks;
}

torch::Tensor squares(const torch::Tensor& output, const torch::Tensor& target) {
  return (output - target).square().mean();
}

void run_step(World& world, const std::vector<PipelineBlock>& blocks, const PipelineOptions& options = {}) {
  Pipeline pipeline(blocks, world, options);
  const Tensors batches(3, torch::ones({2, 4}));
  pipeline.step(batches, batches, squares);
}

// Rank 1 of 3 does something in its second forward.
RunResult run_with(const std::function<void()>& action, const std::string& backend, std::chrono::milliseconds timeout) {
  LaunchOptions options = testing::patient_options();
  options.timeout = timeout;
  options.backend = backend;
  return run_ranks_to_end(
      3,
      [&](World& world) {
        int forwards = 0;
        run_step(world, three_layers([&](const std::string& block) {
                   if (block == "b" && ++forwards == 2) action();
                 }));
      },
      options);
}

class PipelineFailures : public ::testing::TestWithParam<const char*> {};

// Rank 2 waits for an input or sends a gradient, and rank 0 waits for gradients.
TEST_P(PipelineFailures, OfAKilledRankNameStageAndMicroBatch) {
  const RunResult result = run_with([] { raise(SIGKILL); }, GetParam(), testing::patient_options().timeout);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output,
              ContainsRegex("rank 2/3\\] Pipeline, stage 2 \\(block c\\), (forward|backward) of micro-batch [01]: "
                            "(waiting for the output of stage 1, which is on rank 1: |send: ).*rank 1"));
  EXPECT_THAT(result.output,
              ContainsRegex("rank 0/3\\] Pipeline, stage 0 \\(block a\\), (forward|backward) of micro-batch [0-2]: "
                            "(waiting for the gradients of stage 1, which is on rank 1: |send: ).*rank 1"));
}

TEST_P(PipelineFailures, OfAStoppedRankNameStageAndMicroBatch) {
  const RunResult result = run_with([] { raise(SIGSTOP); }, GetParam(), std::chrono::seconds(3));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex("Pipeline, stage [02] \\(block [ac]\\), (forward|backward) of micro-batch "
                                           "[01]: waiting for the (output|gradients) of stage 1, which is on rank 1: "
                                           ".*rank 1 did not answer within 3000 ms"));
}

TEST_P(PipelineFailures, OfABlockNameStageAndMicroBatch) {
  const RunResult result =
      run_with([] { TORCH_CHECK(false, "out of paper"); }, GetParam(), testing::patient_options().timeout);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 1/3] Pipeline, stage 1 (block b), forward of micro-batch 1: out of "
                                       "paper"));
}

INSTANTIATE_TEST_SUITE_P(Over, PipelineFailures, ::testing::Values("shm", "gloo"),
                         [](const auto& info) { return info.param; });

// The message of an error that `body` throws on both of two ranks.
void expect_error_on_two_ranks(const std::function<void(World& world)>& body, const std::string& text) {
  run_ranks(2, [&](World& world) { EXPECT_THAT(message_of([&] { body(world); }), HasSubstr(text)); });
}

TEST(PipelineErrors, NameBlocksThatCannotWork) {
  const auto with = [](const std::function<void(std::vector<PipelineBlock>&)>& change, PipelineOptions options = {}) {
    return [=](World& world) {
      auto blocks = three_layers();
      change(blocks);
      run_step(world, blocks, options);
    };
  };
  const auto none = [](auto&) {};
  expect_error_on_two_ranks(with([](auto& blocks) { blocks[1].name = "a"; }), "found 2 blocks with the name a");
  expect_error_on_two_ranks(with([](auto& blocks) { blocks[1].name = "a.b"; }), "block a.b would lie within block a");
  expect_error_on_two_ranks(with([](auto& blocks) { blocks[1].name = ""; }), "expected one such as \"blocks.0\"");
  expect_error_on_two_ranks(with([](auto& blocks) { blocks[1].make = nullptr; }), "block b has no make function");
  expect_error_on_two_ranks(with([](auto& blocks) { blocks[1].cost = 2; }), "block a has cost 0");
  expect_error_on_two_ranks(with([](auto& blocks) { blocks.resize(1); }), "found 1 blocks for 2 ranks");
  expect_error_on_two_ranks(with(none, {.cuts = {1, 1}}),
                            "found cuts [1, 1], expected 2 stages of at least 1 block that "
                            "have 3 blocks together. For example: [2, 1]");
  expect_error_on_two_ranks(with(none, {.stages_per_rank = 2}), "found 3 blocks for 2 ranks with 2 stages each");
  expect_error_on_two_ranks(
      with([](auto& blocks) { blocks.push_back(blocks[0]), blocks[3].name = "d"; }, {.stages_per_rank = 2}),
      "OneForwardOneBackward");
  expect_error_on_two_ranks(with([](auto& blocks) {
                              blocks[2].shares = {{"weight", "x.weight"}};
                            }),
                            "shares of block c names \"x.weight\"");
  expect_error_on_two_ranks(with([](auto& blocks) {
                              blocks[2].shares = {{"wait", "a.weight"}};
                            }),
                            "expected one of its parameters: weight, bias");
  expect_error_on_two_ranks(with([](auto& blocks) { blocks[2].shares = {{"bias", "a.weight"}}; }), "Make them alike");
  expect_error_on_two_ranks(with([](auto& blocks) {
                              blocks[2].shares = {{"bias", "a.bias"}};
                              blocks[0].shares = {{"bias", "c.bias"}};
                            }),
                            "is tied to itself");
  expect_error_on_two_ranks(with([](auto& blocks) {
                              auto shared = std::make_shared<torch::nn::LinearImpl>(4, 4);
                              blocks[0].make = blocks[2].make = [shared] { return shared; };
                            }),
                            "tie them by PipelineBlock::shares");
  expect_error_on_two_ranks(with([](auto& blocks) {
                              const torch::Tensor shared = torch::ones({4});
                              for (PipelineBlock& block : blocks) {
                                block.make = [make = block.make, shared, name = block.name] {
                                  auto module = make();
                                  module->register_buffer("scale", name == "b" ? shared.clone() : shared);
                                  return module;
                                };
                              }
                            }),
                            "a.scale and c.scale are one tensor, which two ranks cannot hold. Let each block make a "
                            "buffer of its own");
}

// Two names of one block are no two blocks.
TEST(PipelineErrors, AreNoneForABufferThatABlockHasTwice) {
  run_ranks(2, [](World& world) {
    auto blocks = three_layers();
    blocks[0].make = [make = blocks[0].make] {
      auto module = make();
      const torch::Tensor scale = module->register_buffer("scale", torch::ones({4}));
      module->register_buffer("again", scale);
      module->register_buffer("none", torch::Tensor());
      return module;
    };
    blocks[1].make = [make = blocks[1].make] {
      auto module = make();
      module->register_buffer("none", torch::Tensor());
      return module;
    };
    run_step(world, blocks);
  });
}

TEST(PipelineErrors, NameCallsThatDiffer) {
  const auto three = [] { return Tensors(3, torch::ones({2, 4})); };
  expect_error_on_two_ranks(
      [&](World& world) {
        Pipeline pipeline(three_layers(), world);
        pipeline.step(three(), Tensors(2, torch::ones({2, 4})), squares);
      },
      "found 3 inputs on rank 0 and 2 targets on rank 1");
  expect_error_on_two_ranks(
      [&](World& world) {
        Pipeline pipeline(three_layers(), world);
        pipeline.step({}, {}, squares);
      },
      "found no inputs on rank 0");
  expect_error_on_two_ranks(
      [&](World& world) {
        Pipeline pipeline(three_layers(), world, {.cuts = world.rank() == 0 ? std::vector{1, 2} : std::vector{2, 1}});
        pipeline.step(three(), three(), squares);
      },
      "rank 0 and rank 1 have other blocks, cuts or schedules");
  expect_error_on_two_ranks(
      [&](World& world) {
        Pipeline pipeline(three_layers(), world);
        world.rank() == 0 ? static_cast<void>(pipeline.forward(three()))
                          : static_cast<void>(pipeline.step(three(), three(), squares));
      },
      "rank 1 calls step, and rank 0 calls forward");
}

TEST(PipelineErrors, NameOutputsThatCannotBeSent) {
  const auto message_for = [](const Tensors& outputs) {
    return run_ranks_to_end(
               2,
               [&](World& world) {
                 auto blocks = three_layers();
                 blocks[0].forward = [&](torch::nn::Module&, const Tensors&) { return outputs; };
                 run_step(world, blocks);
               },
               testing::patient_options())
        .output;
  };
  const std::string place = "[fsdp rank 0/2] Pipeline, stage 0 (blocks a to b), forward of micro-batch 0: ";
  EXPECT_THAT(message_for({torch::ones({2, 4}), torch::Tensor()}),
              HasSubstr(place + "output 1 of block a is no tensor"));
  EXPECT_THAT(message_for({}), HasSubstr(place + "block a returned 0 tensors, expected 1 to 32"));
  EXPECT_THAT(message_for({torch::ones({2, 4}).to_sparse()}), HasSubstr(place + "output 0 of block a is Sparse"));
  EXPECT_THAT(message_for({torch::ones({2, 4}), torch::ones({2})}),
              HasSubstr(place + "block b takes 1 tensor, and the block before returned 2"));
}

}  // namespace
}  // namespace fsdp
