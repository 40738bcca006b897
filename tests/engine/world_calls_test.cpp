// A rank in a call of its world, while another trains: both are named, and soon.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/pace.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Hosts;
using ::testing::Not;
using testing::RunResult;

using Call = std::function<void(World& world)>;

const std::map<std::string, Call> kCalls = {
    {"barrier", [](World& world) { world.barrier(); }},
    {"all_reduce_",
     [](World& world) {
       torch::Tensor ones = torch::ones({4});
       world.all_reduce_(ones);
     }},
    {"broadcast_",
     [](World& world) {
       torch::Tensor ones = torch::ones({4});
       world.broadcast_(ones);
     }},
    {"all_gather", [](World& world) { world.all_gather(torch::ones({4})); }},
    {"split", [](World& world) { world.split(0); }},
};

// A model, sharded and trained for some steps; a plan is known.
class SmallTraining {
 public:
  explicit SmallTraining(World& world, Strategy strategy = Strategy::FullShard)
      : model_(torch::nn::Linear(16, 16), torch::nn::ReLU(), torch::nn::Linear(16, 16)),
        sharded_(shard(*model_, world, {.strategy = strategy})),
        optimizer_(sharded_) {
    for (int i = 0; i < 3; ++i) step();
  }
  void step() {
    model_->forward(torch::ones({2, 16})).sum().backward();
    optimizer_.step();
    optimizer_.zero_grad();
  }
  ShardedModel& sharded() { return sharded_; }

 private:
  torch::nn::Sequential model_;
  ShardedModel sharded_;
  AdamW optimizer_;
};

void expect_named(const RunResult& result, const std::string& call) {
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex("rank 0 calls World::" + call + " where rank [123] [a-z ]+"));
  EXPECT_THAT(result.output, HasSubstr("no rank can continue"));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

constexpr const char* kSaveOnEveryRank =
    "save_checkpoint is a call of all ranks. Call it on every rank, and not inside `if (rank == 0)`";

class CallBesideTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(CallBesideTraining, IsNamed) {
  for (const auto& [name, call] : kCalls) {
    LaunchOptions options = testing::patient_options();
    options.backend = GetParam();
    const RunResult result = testing::run_ranks_to_end(
        2,
        [&call = call](World& world) {
          SmallTraining training(world);
          world.rank() == 0 ? call(world) : training.step();
          for (;;) training.step();
        },
        options);
    expect_named(result, name);
  }
}

TEST_P(CallBesideTraining, IsNamedWithEveryStrategy) {
  for (const Strategy strategy : {Strategy::NoShard, Strategy::ShardOptimizer, Strategy::ShardGradOp}) {
    LaunchOptions options = testing::patient_options();
    options.backend = GetParam();
    const RunResult result = testing::run_ranks_to_end(
        3,
        [strategy](World& world) {
          SmallTraining training(world, strategy);
          if (world.rank() != 1) world.barrier();
          for (;;) training.step();
        },
        options);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, ContainsRegex("rank 0 calls World::barrier where rank 1 |"
                                             "rank 1 [a-z0-9. ]+ where rank 2 calls World::barrier"));
    EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
  }
}

// Both gather something from all ranks, of other lengths.
TEST_P(CallBesideTraining, OfASaveIsNamed) {
  const testing::ScratchDirectory scratch;
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  const RunResult result = testing::run_ranks_to_end(
      2,
      [&scratch](World& world) {
        SmallTraining training(world);
        if (world.rank() == 0) save_checkpoint(scratch.path() / "saved", {.model = &training.sharded(), .step = 3});
        for (;;) training.step();
      },
      options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output,
              ContainsRegex("rank 0 calls save_checkpoint[a-z0-9 ]* where rank 1 has ended its backward"));
  EXPECT_THAT(result.output, HasSubstr(kSaveOnEveryRank));
  EXPECT_THAT(result.output, Not(HasSubstr("terminate called")));
}

TEST_P(CallBesideTraining, OfASaveAfterTheLoopIsNamed) {
  const testing::ScratchDirectory scratch;
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  const RunResult result = testing::run_ranks_to_end(
      3,
      [&scratch](World& world) {
        SmallTraining training(world);
        if (world.rank() == 0) save_checkpoint(scratch.path() / "saved", {.model = &training.sharded(), .step = 3});
      },
      options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr(kSaveOnEveryRank));
  EXPECT_THAT(result.output, ContainsRegex("\\[fsdp\\] rank [12] returned from its function, and other ranks waited"));
  if (GetParam() != "shm") return;
  EXPECT_THAT(result.output, ContainsRegex("rank [12] has returned early, or destroyed the model, while rank 0 calls "
                                           "save_checkpoint"));
}

TEST_P(CallBesideTraining, OfNoneByARankThatReturnsEarlyIsNamed) {
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  const RunResult result = testing::run_ranks_to_end(
      3,
      [](World& world) {
        SmallTraining training(world);
        if (world.rank() == 1) return;
        for (;;) training.step();
      },
      options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("[fsdp] rank 1 returned from its function, and other ranks waited for it"));
  EXPECT_THAT(result.output, Not(HasSubstr("call of all ranks")));
  if (GetParam() != "shm") return;
  EXPECT_THAT(result.output, ContainsRegex("rank 1 has returned early, or destroyed the model, while rank [02] "));
  EXPECT_THAT(result.output, HasSubstr("ask any_rank_has_batch"));
}

TEST_P(CallBesideTraining, OfNoneByARankThatThrowsIsNoReturn) {
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  const RunResult result = testing::run_ranks_to_end(
      2,
      [](World& world) {
        SmallTraining training(world);
        if (world.rank() == 1) throw std::runtime_error("out of paper");
        for (;;) training.step();
      },
      options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 1/2] out of paper\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("returned")));
}

TEST_P(CallBesideTraining, BesideACallOfAnotherWorldIsNamed) {
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  const RunResult result = testing::run_ranks_to_end(
      2,
      [](World& world) {
        World again = world.split(0);
        world.rank() == 0 ? world.barrier() : again.barrier();
      },
      options);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex("rank 0 (calls World::barrier where rank 1 enters a barrier|"
                                           "enters a barrier where rank 1 calls World::barrier), so no rank"));
  EXPECT_THAT(result.output, HasSubstr("make the same calls, in the same order"));
  EXPECT_THAT(result.output, Not(HasSubstr("did not answer")));
}

// Each waits for the other for longer than a divergence takes to be found.
TEST_P(CallBesideTraining, OfASlowRankIsNone) {
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  testing::run_ranks(
      2,
      [](World& world) {
        SmallTraining training(world);
        World half = world.split(world.rank());
        for (int slow = 0; slow < 2; ++slow) {
          if (world.rank() == slow) testing::sleep_paced(4s);
          world.barrier();
          if (world.rank() == slow) testing::sleep_paced(4s);
          training.step();
          half.barrier();
        }
      },
      options);
}

// The rank's other thread trains, and so the call keeps nobody waiting who does.
TEST_P(CallBesideTraining, OfAnotherThreadIsNone) {
  LaunchOptions options = testing::patient_options();
  options.backend = GetParam();
  testing::run_ranks(
      2,
      [](World& world) {
        SmallTraining training(world);
        std::thread trainer([&] {
          training.step();
          if (world.rank() == 0) testing::sleep_paced(5s);
          training.step();
        });
        testing::sleep_paced(1s);
        if (world.rank() == 1) trainer.join();
        world.barrier();
        if (world.rank() == 0) trainer.join();
      },
      options);
}

#ifdef FSDP_WITH_GLOO
const std::vector<std::string> kBackends{"shm", "gloo"};

TEST(CallBesideTrainingOnHosts, IsNamed) {
  for (const char* backend : {"hosts", "gloo"}) {
    for (const auto& [name, call] : kCalls) {
      LaunchOptions options = testing::patient_options();
      options.backend = backend;
      const auto results = testing::run_on_hosts_to_end(
          Hosts{},
          [&call = call](World& world) {
            SmallTraining training(world);
            if (world.rank() == 0) call(world);
            for (;;) training.step();
          },
          options);
      RunResult all{.exit_code = 0, .output = ""};
      for (const RunResult& result : results) {
        all.exit_code |= result.exit_code;
        all.output += result.output;
      }
      expect_named(all, name);
    }
  }
}
#else
const std::vector<std::string> kBackends{"shm"};
#endif

INSTANTIATE_TEST_SUITE_P(Backends, CallBesideTraining, ::testing::ValuesIn(kBackends));

}  // namespace
}  // namespace fsdp
