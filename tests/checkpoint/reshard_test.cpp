// What N ranks saved, M ranks load, whatever the strategies: the same bits in every element, and in what follows.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using testing_models::every_strategy;
using testing_models::make_gpt;

constexpr int kMostRanks = 5;

// The ways to keep a state: the dtypes of AdamW's, and Muon.
constexpr int kKinds = 4;
std::unique_ptr<Optimizer> make_optimizer(ShardedModel& sharded, int kind) {
  constexpr std::array kDtypes{StateDtype::Float32, StateDtype::Block8, StateDtype::BFloat16};
  if (kind == 3) return std::make_unique<Muon>(sharded);
  return std::make_unique<AdamW>(sharded, AdamWOptions{.lr = 1e-2, .state_dtype = kDtypes[kind]});
}

// Values that no two elements of a tensor share, as long as its dtype can tell them apart: those of elements
// `first` to `first` + numel.
torch::Tensor numbered(int64_t first, int64_t numel, torch::ScalarType type, int64_t salt) {
  const torch::Tensor numbers = torch::arange(first, first + numel) * 5 + salt;
  return (torch::isIntegralType(type, false) ? numbers % 127 : numbers).to(type);
}

template <typename Visit>
void for_each_tensor(ShardedModel& sharded, Optimizer& optimizer, Visit visit) {
  torch::NoGradGuard no_grad;
  const Optimizer::State state = optimizer.state();
  for (size_t i = 0; i < sharded.parameters().size(); ++i) {
    const ShardedParameter& parameter = sharded.parameters()[i];
    const auto salt = static_cast<int64_t>(std::hash<std::string>()(parameter.name) % 1'000'000);
    visit("model." + parameter.name, parameter.piece, parameter.offset, salt);
    for (size_t k = 0; k < state.elements.size(); ++k) {
      const auto& [name, tensors] = state.elements[k];
      if (!tensors[i].defined()) continue;
      const bool scale = name.ends_with("_scale");
      visit(name + "." + parameter.name, tensors[i], scale ? parameter.offset / 64 : parameter.offset, salt + 1 + k);
    }
    for (const auto& [name, tensors] : state.scalars) visit(name, tensors[i].view({1}), 0, salt);
  }
}

void number(ShardedModel& sharded, Optimizer& optimizer) {
  for_each_tensor(sharded, optimizer, [](const std::string&, torch::Tensor tensor, int64_t first, int64_t salt) {
    tensor.copy_(numbered(first, tensor.numel(), tensor.scalar_type(), salt));
  });
}

void forget(ShardedModel& sharded, Optimizer& optimizer) {
  for_each_tensor(sharded, optimizer,
                  [](const std::string&, torch::Tensor tensor, int64_t, int64_t) { tensor.fill_(1); });
}

void expect_numbered(ShardedModel& sharded, Optimizer& optimizer) {
  for_each_tensor(sharded, optimizer, [](const std::string& name, torch::Tensor tensor, int64_t first, int64_t salt) {
    EXPECT_TRUE(torch::equal(tensor, numbered(first, tensor.numel(), tensor.scalar_type(), salt))) << name;
  });
}

// Strategies, and units and dtypes that differ between them.
std::vector<std::pair<std::string, Options>> variants(int ranks) {
  auto all = every_strategy(ranks);
  all[1].second.units = units_by_size(5000);
  all[2].second.units = one_unit();
  all[0].second.mixed_precision.param_dtype = torch::kBFloat16;
  return all;
}

fs::path name_of(int ranks, size_t variant) { return fmt::format("{}-{}", ranks, variant); }
int kind_of(int ranks, size_t variant) { return (ranks + static_cast<int>(variant)) % kKinds; }

TEST(Reshard, EveryNumberOfRanksAndStrategyLoadsWhatEveryOtherSaved) {
  const ScratchDirectory scratch;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    run_ranks(ranks, [&](World& world) {
      const auto all = variants(ranks);
      for (size_t variant = 0; variant < all.size(); ++variant) {
        auto model = make_gpt(2);
        auto sharded = shard(*model.module, world, all[variant].second);
        const auto optimizer = make_optimizer(sharded, kind_of(ranks, variant));
        number(sharded, *optimizer);
        save_checkpoint(scratch.path() / name_of(ranks, variant), {.model = &sharded, .optimizer = optimizer.get()});
      }
    });
  }
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    run_ranks(ranks, [&](World& world) {
      for (const auto& [strategy, options] : variants(ranks)) {
        auto model = make_gpt(2);
        auto sharded = shard(*model.module, world, options);
        std::vector<std::unique_ptr<Optimizer>> optimizers;
        for (int kind = 0; kind < kKinds; ++kind) optimizers.push_back(make_optimizer(sharded, kind));
        for (int saved = 1; saved <= kMostRanks; ++saved) {
          for (size_t variant = 0; variant < variants(saved).size(); ++variant) {
            SCOPED_TRACE(fmt::format("{} ranks' {}, loaded by {} ranks' {}", saved, variants(saved)[variant].first,
                                     ranks, strategy));
            Optimizer& optimizer = *optimizers[kind_of(saved, variant)];
            forget(sharded, optimizer);
            load_checkpoint(scratch.path() / name_of(saved, variant), {.model = &sharded, .optimizer = &optimizer});
            expect_numbered(sharded, optimizer);
          }
        }
      }
    });
  }
}

constexpr int64_t kMicroBatches = 12;  // of a step, on any number of ranks that divides them

void train_micro_batches(testing_models::TestModel& model, ShardedModel& sharded, Optimizer& optimizer, World& world,
                         int first, int last) {
  sharded.set_gradient_divisor(kMicroBatches);
  for (int step = first; step < last; ++step) {
    for (int64_t b = world.rank(); b < kMicroBatches; b += world.size()) {
      model.loss(step * kMicroBatches + b).backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
}

// Two steps on some ranks, two more on others: the bits of four on one.
TEST(Reshard, ARunGoesOnWithOtherRanksWithTheSameBits) {
  const ScratchDirectory scratch;
  struct Part {
    int ranks;
    Options options;
  };
  const std::vector<std::pair<Part, Part>> runs{
      {{3, {}}, {2, {.strategy = Strategy::ShardOptimizer}}},
      {{1, {.strategy = Strategy::NoShard}}, {3, {.units = units_by_size(3000)}}},
      {{4, {.strategy = Strategy::HybridShard, .shard_group_size = 2}}, {3, {.strategy = Strategy::ShardGradOp}}},
      {{2, {}}, {4, {.strategy = Strategy::HybridShard, .shard_group_size = 2}}}};
  const auto run = [&](const Part& part, int kind, int first, int last, const std::string& from,
                       const std::string& to) {
    run_ranks(part.ranks, [&](World& world) {
      auto model = make_gpt(2);
      auto sharded = shard(*model.module, world, part.options);
      const auto optimizer = make_optimizer(sharded, kind);
      if (first > 0) load_checkpoint(scratch.path() / from, {.model = &sharded, .optimizer = optimizer.get()});
      train_micro_batches(model, sharded, *optimizer, world, first, last);
      save_checkpoint(scratch.path() / to, {.model = &sharded, .optimizer = optimizer.get()});
    });
  };
  for (int kind = 0; kind < kKinds; ++kind) {
    run(runs[kind].first, kind, 0, 2, "", "middle");
    run(runs[kind].second, kind, 2, 4, "middle", fmt::format("resumed-{}", kind));
  }
  run_ranks(1, [&](World& world) {
    for (int kind = 0; kind < kKinds; ++kind) {
      auto model = make_gpt(2), other = make_gpt(2);
      auto sharded = shard(*model.module, world), resumed = shard(*other.module, world);
      const auto optimizer = make_optimizer(sharded, kind), theirs = make_optimizer(resumed, kind);
      train_micro_batches(model, sharded, *optimizer, world, 0, 4);
      load_checkpoint(scratch.path() / fmt::format("resumed-{}", kind), {.model = &resumed, .optimizer = theirs.get()});
      std::vector<torch::Tensor> found;
      for_each_tensor(resumed, *theirs, [&](const std::string&, torch::Tensor tensor, int64_t, int64_t) {
        found.push_back(tensor.clone());
      });
      size_t i = 0;
      for_each_tensor(sharded, *optimizer, [&](const std::string& name, torch::Tensor tensor, int64_t, int64_t) {
        EXPECT_TRUE(torch::equal(tensor, found[i++])) << name << " with optimizer " << kind;
      });
    }
  });
}

// Running means and counters of BatchNorm, in the dtype of buffers that the run has.
TEST(Reshard, BuffersComeAlongAndTakeTheDtypeThatTheyHaveHere) {
  const ScratchDirectory scratch;
  const auto make = [] { return torch::nn::Sequential(torch::nn::Linear(8, 8), torch::nn::BatchNorm1d(8)); };
  run_ranks(2, [&](World& world) {
    auto model = make();
    for (auto& buffer : model->buffers()) buffer.fill_(world.rank() + 3);
    auto sharded = shard(*model, world);
    save_checkpoint(scratch.path() / "saved", {.model = &sharded});
  });
  run_ranks(3, [&](World& world) {
    auto model = make();
    auto sharded = shard(*model, world, {.mixed_precision = {.buffer_dtype = torch::kBFloat16}});
    load_checkpoint(scratch.path() / "saved", {.model = &sharded});
    for (const auto& buffer : model->named_buffers()) {
      EXPECT_TRUE(torch::all(buffer.value() == 3).item<bool>()) << buffer.key();
      EXPECT_NE(buffer.value().scalar_type(), torch::kFloat32);
    }
  });
}

// What the kernel has counted of this process's reads.
int64_t bytes_read() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  counters >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST(Reshard, RanksReadTheirPartsAlone) {
  const ScratchDirectory scratch;
  constexpr int64_t kWidth = 2048;  // 16 MiB, and as much for each moment
  const auto body = [&](World& world, bool saves) {
    auto model = deferred_init([&] { return torch::nn::Sequential(torch::nn::Linear(kWidth, kWidth)); });
    auto sharded = shard(*model, world, {.initialise = saves});
    AdamW optimizer(sharded);
    const Checkpoint checkpoint{.model = &sharded, .optimizer = &optimizer};
    if (saves) return save_checkpoint(scratch.path() / "saved", checkpoint);
    const int64_t before = bytes_read();
    load_checkpoint(scratch.path() / "saved", checkpoint);
    const torch::Tensor read = torch::tensor({bytes_read() - before}, torch::kInt64);
    int64_t all = 0, most = 0;
    for (const torch::Tensor& theirs : world.all_gather(read)) {
      all += theirs.item<int64_t>();
      most = std::max(most, theirs.item<int64_t>());
    }
    int64_t saved = 0;
    for (const auto& file : fs::directory_iterator(scratch.path() / "saved")) {
      saved += static_cast<int64_t>(file.file_size());
    }
    // At each end of a piece the rest of a block of 1 MiB, and headers.
    const int64_t rest = int64_t{3} * 2 * (1 << 20) + (1 << 17);
    EXPECT_GE(all, saved - (1 << 17));
    EXPECT_LE(most, saved / world.size() + rest);
  };
  run_rank_processes(3, [&](World& world) { body(world, true); });
  for (int ranks : {2, 3, 5}) run_rank_processes(ranks, [&](World& world) { body(world, false); });
}

}  // namespace
}  // namespace fsdp
