// Checkpoints of version 2, which earlier versions of this library wrote, are loaded by any number of ranks, too.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <fstream>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "files/content_hash.h"
#include "files/json.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/sealed_manifest.h"
#include "support/temporary_folder.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;

// As version 2 had it: pieces that are empty, and steps in every file; the manifest with less. Steps are `more`.
void make_version2(const fs::path& directory, double more = 0) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(directory);
  files::OrderedJson parameters = files::OrderedJson::array(), shards = files::OrderedJson::array();
  for (const auto& one : manifest.parameters) {
    parameters.push_back({{"name", one.name}, {"shape", one.shape}, {"strides", one.strides}});
  }
  for (int shard = 0; shard < manifest.shards; ++shard) {
    const std::string name = checkpoint::shard_file_name(shard, manifest.shards);
    auto tensors = checkpoint::read_safetensors(directory / name);
    for (const auto& parameter : manifest.parameters) {
      const bool is_empty = !tensors.contains("model." + parameter.name);
      for (const auto& [kind, dtype] : parameter.tensors)
        tensors.try_emplace(kind + "." + parameter.name, torch::zeros({0}));
      for (const auto& [kind, number] : parameter.scalars) {
        tensors[kind + "." + parameter.name] = torch::tensor(is_empty ? 0.0 : number + more, torch::kFloat32);
      }
    }
    fs::remove(directory / name);
    checkpoint::write_safetensors(directory / name, {tensors.begin(), tensors.end()}, {{"format", "pt"}});
    const std::string bytes = read_bytes(directory / name);
    shards.push_back({{"name", name}, {"bytes", bytes.size()}, {"hash", files::hash_of(bytes.data(), bytes.size())}});
  }
  const files::OrderedJson json = {{"hash", std::string(files::kHashDigits, '0')},
                                   {"format", "fsdp-checkpoint"},
                                   {"version", 2},
                                   {"world_size", manifest.world_size},
                                   {"shards", manifest.shards},
                                   {"step", manifest.step},
                                   {"notes", manifest.notes},
                                   {"files", shards},
                                   {"parameters", parameters}};
  std::ofstream(directory / checkpoint::kManifestName, std::ios::binary) << sealed_manifest(json.dump(2) + "\n");
}

TEST(Version2, IsLoadedByAnyNumberOfRanks) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.path() / "step-4";
  const auto train = [](testing_models::TestModel& model, ShardedModel& sharded, Optimizer& optimizer, World& world) {
    sharded.set_gradient_divisor(6);
    for (int64_t b = world.rank(); b < 6; b += world.size()) model.loss(b).backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  run_ranks(3, [&](World& world) {
    auto model = testing_models::make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    train(model, sharded, optimizer, world);
    save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer, .step = 4, .notes = {{"a", "b"}}});
    world.barrier();
    if (world.rank() == 0) make_version2(directory);
  });
  for (int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](World& world) {
      auto model = testing_models::make_gpt(), other = testing_models::make_gpt();
      auto expected = shard(*model.module, world), sharded = shard(*other.module, world);
      AdamW optimizer(expected), loaded(sharded);
      train(model, expected, optimizer, world);
      EXPECT_EQ(load_checkpoint(directory, {.model = &sharded, .optimizer = &loaded}), 4);
      EXPECT_EQ(checkpoint_notes(directory).at("a"), "b");
      const Optimizer::State wanted = optimizer.state(), found = loaded.state();
      for (size_t i = 0; i < expected.parameters().size(); ++i) {
        EXPECT_TRUE(torch::equal(expected.parameters()[i].piece, sharded.parameters()[i].piece)) << i;
        for (size_t k = 0; k < wanted.elements.size(); ++k) {
          EXPECT_TRUE(torch::equal(wanted.elements[k].tensors[i], found.elements[k].tensors[i])) << i;
        }
        EXPECT_EQ(found.scalars[0].tensors[i].item<float>(), 1) << i;
      }
    });
  }
}

TEST(Version2, ThatIsDamagedIsAnErrorThatNamesTheFile) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    const fs::path directory = scratch.path() / "saved";
    auto model = testing_models::make_gpt();
    auto sharded = shard(*model.module, world);
    save_checkpoint(directory, {.model = &sharded});
    world.barrier();
    const fs::path file = directory / checkpoint::shard_file_name(1, 2);
    if (world.rank() == 0) {
      make_version2(directory);
      std::string bytes = read_bytes(file);
      bytes.back() = static_cast<char>(bytes.back() ^ 4);
      std::ofstream(file, std::ios::binary) << bytes;
    }
    world.barrier();
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded}); }),
                AllOf(HasSubstr(file.string()), HasSubstr("is damaged")));
  });
}

TEST(Version2, AStepIsAWholeNumber) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = testing_models::make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded);
    model.loss(0).backward();
    optimizer.step();
    for (const double more : {0.5, -2.0}) {
      const fs::path directory = scratch.path() / fmt::format("step-{}", more > 0);
      save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer});
      make_version2(directory, more);
      EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer}); }),
                  AllOf(HasSubstr(checkpoint::shard_file_name(0, 1)), HasSubstr(fmt::format("found {} for", 1 + more)),
                        HasSubstr("expected a whole number from 0 to 9007199254740992")));
    }
  });
}

}  // namespace
}  // namespace fsdp
