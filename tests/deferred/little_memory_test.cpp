// A model whose parameters alone, in fp32, are more than the memory that each of its ranks may have.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/control_group.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::run_rank_processes;
namespace nn = torch::nn;

constexpr int kRanks = 4, kBlocks = 96, kSteps = 20;
constexpr int64_t kWidth = 1120, kModelBytes = kBlocks * (kWidth + 1) * kWidth * 4;  // 482 MB
constexpr int64_t kAllowedBytes = kModelBytes * 9 / 10;

// Private memory that this process may write, in bytes, as RLIMIT_DATA counts it.
int64_t writable_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoll(line.substr(7)) * 1024;
  }
  return 0;
}

// A group for each rank, and a limit on private memory where this user can make no groups. Made before the ranks are,
// and gone after them.
class Limits {
 public:
  explicit Limits(int64_t bytes) : bytes_(bytes) {
    for (int rank = 0; rank < kRanks; ++rank) groups_.emplace_back(static_cast<size_t>(bytes));
  }
  // From now on this process, that of the rank, gets that much and no more.
  void apply(int rank) const {
    const auto& group = groups_[static_cast<size_t>(rank)];
    if (group.is_there()) ASSERT_TRUE(group.enter());
    allow_private(bytes_);
  }

 private:
  static void allow_private(int64_t bytes);

  int64_t bytes_;
  std::vector<testing::ControlGroup> groups_;
};

void Limits::allow_private(int64_t bytes) {
  const auto most = static_cast<rlim_t>(writable_bytes() + bytes);
  const rlimit limit{most, most};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

struct DeepImpl : nn::Module {
  DeepImpl() {
    for (int i = 0; i < kBlocks; ++i) blocks->push_back(nn::Linear(kWidth, kWidth));
    register_module("blocks", blocks);
    torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.normal_(0, 0.01);
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& block : *blocks) x = x + torch::tanh(block->as<nn::Linear>()->forward(x));
    return x;
  }
  nn::ModuleList blocks;
};
TORCH_MODULE(Deep);

double train(Deep& model, ShardedModel& sharded, AdamW& optimizer, World& world, int steps) {
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    torch::Tensor loss = model->forward(torch::full({2, kWidth}, 0.1 * (1 + world.rank()))).pow(2).mean();
    loss.backward();
    optimizer.step();
    sharded.zero_grad();
    last = loss.item<double>();
  }
  return last;
}

const Options kUnits{.units = units_of<nn::LinearImpl>()};
const AdamWOptions kAdamW{.lr = 1e-5, .state_dtype = StateDtype::Block8};

TEST(LittleMemory, TrainsSavesLoadsAndExportsAModelThatDoesNotFit) {
  const fsdp::testing::ScratchDirectory directory;
  const Limits limits(kAllowedBytes);
  const auto checkpoint = directory.path() / "checkpoint", exported = directory.path() / "exported";
  run_rank_processes(kRanks, [&](World& world) {
    limits.apply(world.rank());
    auto model = deferred_init([] { return Deep(); });
    auto sharded = shard(*model, world, kUnits);
    AdamW optimizer(sharded, kAdamW);
    const double first = train(model, sharded, optimizer, world, 1);
    EXPECT_LT(train(model, sharded, optimizer, world, kSteps - 1), first);
    save_checkpoint(checkpoint, {.model = &sharded, .optimizer = &optimizer, .step = kSteps});
    save_pretrained(exported, sharded);
  });
  run_rank_processes(kRanks, [&](World& world) {
    limits.apply(world.rank());
    auto model = deferred_init([] { return Deep(); });
    Options options = kUnits;
    options.initialise = false;
    auto sharded = shard(*model, world, options);
    load_pretrained(exported, sharded);
    AdamW optimizer(sharded, kAdamW);
    EXPECT_EQ(load_checkpoint(checkpoint, {.model = &sharded, .optimizer = &optimizer}), kSteps);
    EXPECT_GT(train(model, sharded, optimizer, world, 1), 0);
  });
}

TEST(LittleMemory, IsTooLittleForAnOrdinaryConstruction) {
  const Limits limits(kAllowedBytes);
  const auto result = fsdp::testing::run_ranks_to_end(1, [&](World& world) {
    limits.apply(world.rank());
    const Deep model;
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ::testing::HasSubstr("allocate memory"));
}

}  // namespace
}  // namespace fsdp
