// Sums of gradients that lie in files: what they are multiplied by is not written there, and nobody sees that it is
// not.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "interpose/piece_storage.h"
#include "support/drawn.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using interpose::PieceStorage;
using ::testing::HasSubstr;
using testing_models::make_gpt;
using testing_models::TestModel;

constexpr double kMaxNorm = 0.05;  // less than the gradients'

class OffloadedGradients : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, OffloadedGradients,
                         fsdp::testing::drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{2, "shm"}, {3, "gloo"}}),
                         ::testing::PrintToStringParamName());

// In a folder, or in memory.
struct Trained {
  Trained(World& world, const Options& options)
      : model(make_gpt()), sharded(shard(*model.module, world, options)), optimizer(sharded) {
    for (int batch : {0, 1}) model.loss(batch * world.size() + world.rank()).backward();
  }

  std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> all;
    for (const ShardedParameter& parameter : sharded.parameters()) all.push_back(parameter.piece.grad());
    return all;
  }
  // As operators see them.
  std::vector<torch::Tensor> values() const {
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& gradient : gradients()) all.push_back(gradient.clone());
    return all;
  }
  // The stored values, before any factor is applied.
  std::vector<torch::Tensor> bytes() const {
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& gradient : gradients()) all.push_back(PieceStorage::of(gradient)->memory().clone());
    return all;
  }

  TestModel model;
  ShardedModel sharded;
  AdamW optimizer;
};

void expect_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

TEST_P(OffloadedGradients, AreNotWrittenByClippingAndSteps) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    Trained in_files(world, {.offload_directory = scratch.path()});
    const auto sums = in_files.bytes();
    EXPECT_GT(in_files.sharded.clip_grad_norm_(kMaxNorm), kMaxNorm);
    in_files.optimizer.step();
    expect_equal(in_files.bytes(), sums);
  });
}

TEST_P(OffloadedGradients, AreReadAsThoseInMemory) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    Trained in_memory(world, {}), in_files(world, {.offload_directory = scratch.path()});
    const auto clip = [&](double max_norm) {
      EXPECT_EQ(in_memory.sharded.clip_grad_norm_(max_norm), in_files.sharded.clip_grad_norm_(max_norm));
    };
    const auto step = [&] {
      for (Trained* run : {&in_memory, &in_files}) run->optimizer.step();
    };
    const auto look = [&] { expect_equal(in_memory.values(), in_files.values()); };
    clip(1e6);  // changes nothing
    step();
    step();
    look();
    clip(kMaxNorm);
    clip(kMaxNorm / 2);
    look();
    clip(kMaxNorm / 4);
    step();
    look();
    expect_equal(in_memory.bytes(), in_files.bytes());
    clip(kMaxNorm / 8);
    step();
    for (Trained* run : {&in_memory, &in_files}) {
      for (const torch::Tensor& gradient : run->gradients()) torch::Tensor(gradient).zero_();
      run->model.loss(world.rank()).backward();
    }
    look();
  });
}

TEST_P(OffloadedGradients, RefuseTheirBytesUntilTheyAreRead) {
  const ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    Trained run(world, {.offload_directory = scratch.path()});
    run.optimizer.step();
    const torch::Tensor gradient = run.gradients().front();
    EXPECT_THAT([&] { gradient.const_data_ptr<float>(); },
                ::testing::ThrowsMessage<std::exception>(HasSubstr("before they were multiplied")));
    const torch::Tensor read = gradient.clone();
    EXPECT_EQ(gradient.const_data_ptr<float>()[0], read.const_data_ptr<float>()[0]);
  });
}

}  // namespace
}  // namespace fsdp
