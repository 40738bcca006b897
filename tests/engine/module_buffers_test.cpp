// Buffers that a forward writes: found where ranks drift apart, and broadcast where that is asked for.
#include "engine/module_buffers.h"

#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/drawn.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::run_ranks;
using fsdp::testing::RunResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using torch::Tensor;

constexpr const char* kFinding = "warning: training wrote these buffers";

// Quantises to a vector that follows the mean of what it is given, as a codebook does.
struct QuantiserImpl : torch::nn::Module {
  QuantiserImpl()
      : encode(register_module("encode", torch::nn::Linear(4, 4))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))),
        codebook(register_buffer("codebook", torch::ones({4}))),
        scale(register_buffer("scale", torch::ones({4}))),
        count(register_buffer("count", torch::zeros({}, torch::kInt64))) {}

  Tensor forward(const Tensor& x) {
    const Tensor encoded = norm(encode(x));
    seen = codebook.clone();
    if (follows) {
      torch::NoGradGuard no_grad;
      codebook.mul_(0.5).add_(0.5 * x.mean(0));
    }
    if (counts) count.add_(1);
    return (encoded - seen).pow(2).mean();
  }

  torch::nn::Linear encode;
  torch::nn::BatchNorm1d norm;
  Tensor codebook, scale, count;
  Tensor seen;          // the codebook that the last forward computed with
  bool follows = true;  // the data of this rank
  bool counts = false;  // the same on every rank
};
TORCH_MODULE(Quantiser);

void train_quantiser(Quantiser& model, ShardedModel& sharded, World& world, int steps) {
  AdamW optimizer(sharded, {.lr = 1e-2});
  for (int step = 0; step < steps; ++step) {
    model->forward(testing_models::values_for(step * world.size() + world.rank(), {3, 4})).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
}

std::string output_of(const std::function<void(World&)>& body) {
  const RunResult result = fsdp::testing::run_ranks_to_end(2, body);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ModuleBuffers, WrittenFromEachRanksDataAreToldOnceByOneRank) {
  const std::string output = output_of([](World& world) {
    torch::manual_seed(1);
    Quantiser model;
    auto sharded = shard(*model, world);
    train_quantiser(model, sharded, world, 5);
  });
  EXPECT_EQ(times(output, kFinding), 1u) << output;
  EXPECT_THAT(output, HasSubstr("now: codebook. A forward"));
  EXPECT_THAT(output, HasSubstr("options.broadcast_buffers"));
}

TEST(ModuleBuffers, ThatRanksWriteAlikeAndStatisticsOfBatchNormsAreNotTold) {
  const std::string output = output_of([](World& world) {
    torch::manual_seed(1);
    Quantiser model;
    model->follows = false;
    model->counts = true;
    auto sharded = shard(*model, world);
    train_quantiser(model, sharded, world, 5);
  });
  EXPECT_THAT(output, Not(HasSubstr("warning")));
}

class BroadcastBuffers : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, BroadcastBuffers,
                         drawn<Job>({{3, "shm"}, {2, "gloo"}}, {{1, "shm"}, {2, "shm"}, {3, "gloo"}}),
                         ::testing::PrintToStringParamName());

// Rank 0 goes its way alone: the codebook of its own batches is everyone's.
TEST_P(BroadcastBuffers, GiveRank0sToAllBeforeEachTrainingForward) {
  run_ranks(GetParam(), [](World& world) {
    torch::manual_seed(1);
    Quantiser model;
    auto sharded = shard(*model, world, {.broadcast_buffers = true});
    AdamW optimizer(sharded, {.lr = 1e-2});
    Tensor expected = torch::ones({4});
    for (int step = 0; step < 4; ++step) {
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const int64_t number = 2 * step + micro_batch;
        const auto batch_of = [&](int rank) {
          return testing_models::values_for(number * world.size() + rank, {3, 4});
        };
        model->forward(batch_of(world.rank())).backward();
        EXPECT_TRUE(torch::equal(model->seen, expected)) << step;
        expected = expected * 0.5 + 0.5 * batch_of(0).mean(0);
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

TEST(BroadcastBuffers, NothingIsBroadcastInAStepThatSomeRankFollows) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(1);
    Quantiser model;
    auto sharded = shard(*model, world, {.broadcast_buffers = true});
    AdamW optimizer(sharded, {.lr = 1e-2});
    for (int64_t step = 0;; ++step) {
      const bool here = step < 2 + 2 * world.rank();
      if (!sharded.any_rank_has_batch(here)) break;
      if (here) {
        model->forward(testing_models::values_for(step, {3, 4})).backward();
      } else {
        sharded.backward_without_batch();
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

TEST(BroadcastBuffers, NothingIsBroadcastInANoSyncScope) {
  run_ranks(2, [](World& world) {
    torch::manual_seed(1);
    Quantiser model;
    auto sharded = shard(*model, world, {.broadcast_buffers = true});
    const auto batch = testing_models::values_for(world.rank(), {3, 4});
    {
      const NoSync scope = sharded.no_sync();
      for (int i = 0; i < 2 + world.rank(); ++i) model->forward(batch);
      model->forward(batch).backward();
    }
    const Tensor own = model->codebook.clone();
    model->forward(batch).backward();
    EXPECT_EQ(torch::equal(model->seen, own), world.rank() == 0);
  });
}

TEST(BroadcastBuffers, MustBeAlikeOnEveryRank) {
  run_ranks(2, [](World& world) {
    Quantiser model;
    try {
      shard(*model, world, {.broadcast_buffers = world.rank() == 1});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the option broadcast_buffers is true on rank 1 and false on rank 0"));
    }
  });
}

TEST(ModuleBuffers, OfEveryDtypeAndShapeAreBroadcast) {
  run_ranks(3, [](World& world) {
    const auto group = world.state()->new_group();
    const int64_t rank = world.rank();
    const Tensor transposed = torch::full({2, 3}, rank, torch::kFloat).t();
    engine::ModuleBuffers buffers(*group,
                                  {{"a", torch::full({}, rank, torch::kInt64)},
                                   {"b", torch::full({3}, rank, torch::kBFloat16)},
                                   {"c", torch::full({5}, rank == 1, torch::kBool)},
                                   {"d", transposed},
                                   {"e", torch::empty({0})}},
                                  {}, /*broadcast_each_forward=*/false);
    buffers.broadcast(1);
    for (const auto& [name, buffer] : buffers.named()) {
      EXPECT_TRUE(torch::equal(buffer, torch::ones_like(buffer))) << name;
    }
  });
}

TEST(ModuleBuffers, AreComparedInTheFirstBackwardsAndThenNoMore) {
  run_ranks(2, [](World& world) {
    const auto group = world.state()->new_group();
    const Tensor early = torch::zeros({2}), late = torch::zeros({2}), never = torch::full({2}, world.rank());
    engine::ModuleBuffers buffers(*group, {{"early", early}, {"late", late}, {"never", never}}, {},
                                  /*broadcast_each_forward=*/false);
    const auto backward = [&] {
      buffers.forward_begins(/*together=*/true);
      buffers.backward_ends(/*together=*/true);
    };
    backward();
    EXPECT_THAT(buffers.differing(), IsEmpty());
    early.add_(world.rank());
    backward();
    EXPECT_THAT(buffers.differing(), ElementsAre("early"));
    late.add_(world.rank());
    if (world.rank() == 0) backward();  // no collective any more
    EXPECT_THAT(buffers.differing(), ElementsAre("early"));
  });
}

}  // namespace
}  // namespace fsdp
