// A load that fails. Where a file is damaged, everything stays as it was. Where a file changes while it is read, the
// model refuses every use until another load has succeeded.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <set>
#include <string>

#include "checkpoint/manifest.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/train_sharded.h"

namespace {

// Of this process, so that ranks which look at them are processes: whether a byte differs when it is read once more,
// and how many were read.
std::atomic<bool> changes = false;
std::atomic<int64_t> bytes_read = 0;
std::mutex mutex;
std::set<off_t> read_before;

ssize_t read_maybe_changed(int descriptor, void* bytes, size_t size, off_t offset) {
  const ssize_t count = syscall(SYS_pread64, descriptor, bytes, size, offset);
  if (count > 0) bytes_read += count;
  if (!changes || count <= 0 || offset == 0) return count;  // headers are read twice, from 0 on
  const std::lock_guard lock(mutex);
  if (!read_before.insert(offset).second) *static_cast<char*>(bytes) ^= 1;
  return count;
}

}  // namespace

extern "C" {
ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  return read_maybe_changed(descriptor, bytes, size, offset);
}
ssize_t pread64(int descriptor, void* bytes, size_t size, off64_t offset) {
  return read_maybe_changed(descriptor, bytes, size, offset);
}
}

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing_models;

struct Sharded {
  Sharded(World& world, TestModel made, const Options& options = {})
      : model(std::move(made)), sharded(shard(*model.module, world, options)), optimizer(sharded) {}

  void step(const World& world) {
    model.loss(world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  Checkpoint checkpoint() { return {.model = &sharded, .optimizer = &optimizer, .step = 3}; }
  std::vector<torch::Tensor> values() {
    std::vector<torch::Tensor> all = sharded.shards();
    for (const auto& element : optimizer.state().elements) {
      all.insert(all.end(), element.tensors.begin(), element.tensors.end());
    }
    for (torch::Tensor& one : all) one = one.clone();
    return all;
  }

  TestModel model;
  ShardedModel sharded;
  AdamW optimizer;
};

void expect_equal(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
}

void flip_last_bit(const fs::path& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(-1, std::ios::end);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(byte);
}

TEST(ChangingFiles, AreFoundAndTheModelRefusesEverythingButALoad) {
  const ScratchDirectory scratch;
  run_rank_processes(2, [&](World& world) {
    Sharded trained(world, make_gpt());
    trained.step(world);
    save_checkpoint(scratch.path() / "saved", trained.checkpoint());
    Sharded other(world, make_gpt());
    other.step(world);
    other.step(world);
    changes = world.rank() == 1;
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", other.checkpoint()); }),
                HasSubstr("saved changed while it was loaded"));
    EXPECT_EQ(read_before.empty(), world.rank() == 0);
    changes = false;
    for (const std::string& message :
         {message_of<Error>([&] { other.model.loss(0); }), message_of<Error>([&] { other.optimizer.step(); }),
          message_of<Error>([&] { save_checkpoint(scratch.path() / "next", other.checkpoint()); })}) {
      EXPECT_THAT(message, AllOf(HasSubstr("after a load that broke off"), HasSubstr("Load a checkpoint")));
    }
    for (const auto& state : other.optimizer.state().elements) {
      for (const torch::Tensor& one : state.tensors) EXPECT_TRUE(torch::all(one == 0).item<bool>());
    }
    EXPECT_EQ(load_checkpoint(scratch.path() / "saved", other.checkpoint()), 3);
    trained.step(world);
    other.step(world);
    expect_equal(other.values(), trained.values());
  });
}

// A load of the parameters alone is enough for these.
TEST(ChangingFiles, LeaveAModelThatCanBeFilledByWeights) {
  const ScratchDirectory scratch;
  run_rank_processes(2, [&](World& world) {
    Sharded trained(world, make_gpt()), other(world, make_gpt());
    trained.step(world);
    save_checkpoint(scratch.path() / "saved", trained.checkpoint());
    save_pretrained(scratch.path() / "weights", trained.sharded);
    changes = true;
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", other.checkpoint()); }),
                HasSubstr("changed while it was loaded"));
    changes = false;
    EXPECT_THAT(message_of<Error>([&] { other.sharded.full_state(); }), HasSubstr("after a load that broke off"));
    load_pretrained(scratch.path() / "weights", other.sharded);
    const NamedTensors expected = trained.sharded.full_state(), found = other.sharded.full_state();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(found[i].second, expected[i].second));
  });
}

TEST(DamagedCheckpoint, LeavesTheRealParametersOfAPartlyDeferredModel) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    const auto make = [](bool is_deferred) {
      const auto last = [] { return torch::nn::Linear(40, 40); };
      torch::manual_seed(4);
      const torch::nn::Linear first(40, 40);
      return torch::nn::Sequential(first, is_deferred ? deferred_init(last) : last());
    };
    auto saved = make(false);
    auto sharded = shard(*saved, world);
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& piece : sharded.shards()) piece.fill_(7);
    }
    save_checkpoint(scratch.path() / "saved", {.model = &sharded});
    if (world.rank() == 0) flip_last_bit(scratch.path() / "saved" / checkpoint::shard_file_name(1, 2));
    world.barrier();
    auto partly = make(true), expected = make(false);
    auto loaded = shard(*partly, world, {.initialise = false}), undisturbed = shard(*expected, world);
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", {.model = &loaded}); }),
                HasSubstr("is damaged"));
    loaded.initialise();
    expect_equal(loaded.shards(), undisturbed.shards());
  });
}

// Nothing is read twice where nothing can be lost.
TEST(DamagedCheckpoint, LeavesANewModelWithoutValuesAndANewOptimizerWithoutState) {
  const ScratchDirectory scratch;
  const std::string name = checkpoint::shard_file_name(1, 2);
  const fs::path saved = scratch.path() / "saved", damaged = scratch.path() / "damaged";
  run_rank_processes(2, [&](World& world) {
    Sharded trained(world, make_gpt());
    trained.step(world);
    save_checkpoint(saved, trained.checkpoint());
    if (world.rank() == 0) {
      fs::copy(saved, damaged, fs::copy_options::recursive);
      flip_last_bit(damaged / name);
    }
    world.barrier();
    for (const bool is_loaded : {false, true}) {
      Sharded made(world, deferred_init([] { return make_gpt(); }), {.initialise = false});
      EXPECT_THAT(message_of<Error>([&] { load_checkpoint(damaged, made.checkpoint()); }),
                  HasSubstr(name + " is damaged"));
      EXPECT_THAT(message_of<Error>([&] { made.model.loss(0); }), HasSubstr("before the parameters have values"));
      for (const auto& state : made.optimizer.state().elements) {
        for (const torch::Tensor& one : state.tensors) EXPECT_TRUE(torch::all(one == 0).item<bool>());
      }
      Sharded expected(world, make_gpt());
      if (is_loaded) {
        for (Sharded* one : {&made, &expected}) {
          bytes_read = 0;
          EXPECT_EQ(load_checkpoint(saved, one->checkpoint()), 3);
          const auto all = static_cast<int64_t>(fs::file_size(saved / checkpoint::shard_file_name(0, 2)));
          EXPECT_GE(bytes_read, all);
          EXPECT_EQ(bytes_read < all * 5 / 4, one == &made);  // whose parameters are read once
        }
      } else {
        made.sharded.initialise();
      }
      for (Sharded* one : {&made, &expected}) one->step(world);
      expect_equal(made.values(), expected.values());
    }
  });
}

// By hand, before the first step.
TEST(DamagedCheckpoint, LeavesAStateThatWasRestored) {
  const ScratchDirectory scratch;
  const fs::path saved = scratch.path() / "saved";
  run_ranks(2, [&](World& world) {
    Sharded trained(world, make_gpt());
    trained.step(world);
    save_checkpoint(saved, trained.checkpoint());
    if (world.rank() == 0) flip_last_bit(saved / checkpoint::shard_file_name(1, 2));
    world.barrier();
    Sharded restored(world, make_gpt());
    for (const auto& state : restored.optimizer.state().elements) {
      for (const torch::Tensor& one : state.tensors) torch::Tensor(one).fill_(3);
    }
    EXPECT_THROW(load_checkpoint(saved, restored.checkpoint()), Error);
    for (const auto& state : restored.optimizer.state().elements) {
      for (const torch::Tensor& one : state.tensors) EXPECT_TRUE(torch::all(one == 3).item<bool>()) << state.name;
    }
  });
}

}  // namespace
}  // namespace fsdp
