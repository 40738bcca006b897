// Checkpoints of models that lie on several axes of a mesh: data, pipeline, tensor.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "checkpoint/background_saves.h"
#include "checkpoint/manifest.h"
#include "checkpoint/mesh_model.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::drawn;
using fsdp::testing::MeshShape;
using fsdp::testing::MeshTraining;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
using fsdp::testing::RunResult;
using fsdp::testing::ScratchDirectory;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kSavedStep = 2;

void expect_same_state(MeshTraining& found, MeshTraining& expected) {
  const auto all = found.state(), wanted = expected.state();
  ASSERT_EQ(all.size(), wanted.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].first, wanted[i].first);
    EXPECT_TRUE(torch::equal(all[i].second, wanted[i].second)) << all[i].first;
  }
}

// Trained on the mesh and loaded on 1 rank; trained on 1 rank, loaded on the mesh, and loaded on 1 rank again.
class MeshCheckpoints : public ::testing::TestWithParam<MeshShape> {};

TEST_P(MeshCheckpoints, LoadOnOneRankAndBack) {
  const MeshShape shape = GetParam(), one{.tied = shape.tied, .muon = shape.muon, .state_dtype = shape.state_dtype};
  const ScratchDirectory scratch;
  const fs::path from_one = scratch.path() / "one", from_mesh = scratch.path() / "mesh", back = scratch.path() / "back";
  run_ranks(1, [&](World& world) {
    MeshTraining run(world, one);
    run.step_to(kSavedStep);
    save_checkpoint(from_one, run.checkpoint());
  });
  run_ranks(shape.ranks(), [&](World& world) {
    MeshTraining run(world, shape);
    run.step_to(kSavedStep);
    save_checkpoint(from_mesh, run.checkpoint());
    MeshTraining other(world, shape, 7);
    EXPECT_EQ(load_checkpoint(from_one, other.checkpoint()), kSavedStep);
    other.steps = kSavedStep;
    save_checkpoint_async(back, other.checkpoint()).wait();
  });
  run_ranks(1, [&](World& world) {
    MeshTraining expected(world, one);
    expected.step_to(kSavedStep);
    for (const fs::path& saved : {from_mesh, back}) {
      SCOPED_TRACE(saved.filename());
      MeshTraining found(world, one, 7);
      EXPECT_EQ(load_checkpoint(saved, found.checkpoint()), kSavedStep);
      expect_same_state(found, expected);
    }
  });
  const auto names_in = [](const fs::path& saved) {
    std::multiset<std::string> names;
    for (const auto& parameter : checkpoint::read_manifest(saved).parameters) names.insert(parameter.name);
    return names;
  };
  EXPECT_EQ(names_in(from_mesh), names_in(from_one));
}

INSTANTIATE_TEST_SUITE_P(Meshes, MeshCheckpoints,
                         drawn<MeshShape>({MeshShape{2, 2, 2}},
                                          {MeshShape{2, 2, 1}, MeshShape{2, 1, 2}, MeshShape{1, 2, 4},
                                           MeshShape{4, 1, 2}, MeshShape{1, 2, 2, 2}, MeshShape{2, 1, 4},
                                           MeshShape{1, 3, 1}, MeshShape{2, 1, 2, 1, Strategy::NoShard}}),
                         [](const auto& info) { return info.param.name(); });
INSTANTIATE_TEST_SUITE_P(OfTiedBlocks, MeshCheckpoints,
                         drawn<MeshShape>({MeshShape{2, 2, 1, 2, Strategy::FullShard, true}},
                                          {MeshShape{2, 2, 1, 1, Strategy::FullShard, true},
                                           MeshShape{1, 3, 1, 1, Strategy::FullShard, true}}),
                         [](const auto& info) { return info.param.name(); });

INSTANTIATE_TEST_SUITE_P(OfMuon, MeshCheckpoints,
                         drawn<MeshShape>({MeshShape{.data = 2, .pipeline = 2, .tensor = 2, .muon = true}},
                                          {MeshShape{.data = 2, .tensor = 2, .muon = true},
                                           MeshShape{.pipeline = 2, .tensor = 4, .muon = true}}),
                         [](const auto& info) { return info.param.name(); });

INSTANTIATE_TEST_SUITE_P(
    InEightBits, MeshCheckpoints,
    ::testing::Values(
        MeshShape{.data = 2, .pipeline = 2, .state_dtype = StateDtype::Block8},
        MeshShape{.data = 2, .pipeline = 2, .stages_per_rank = 2, .tied = true, .state_dtype = StateDtype::Block8}),
    [](const auto& info) { return info.param.name(); });

// Blocks of eight-bit state follow the elements of a rank's part, so that the parts of a fused layer have no whole
// ones.
TEST(MeshCheckpoint, OfDividedEightBitStateIsAnError) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    MeshTraining run(world, {.tensor = 2, .state_dtype = StateDtype::Block8});
    run.step_to(1);
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / "saved", run.checkpoint()); }),
                HasSubstr("blocks of 8-bit state are not divided. Use another state_dtype"));
  });
  EXPECT_FALSE(latest_checkpoint(scratch.path()));
}

// Two ranks save with a mesh of all four, and the two others with one of their own: no rank waits for ever.
TEST(MeshCheckpoint, OfOtherMeshesIsAnError) {
  const ScratchDirectory scratch;
  const RunResult result = run_ranks_to_end(
      4,
      [&](World& world) {
        MeshTraining run(world, {2, 2, 1});
        World half = world.split(world.rank() % 2);  // the data ranks of a stage
        Checkpoint checkpoint = run.checkpoint();
        if (world.rank() % 2 == 1) checkpoint.mesh = Mesh(half, {{"data", 2}});
        save_checkpoint(scratch.path() / "saved", checkpoint);
      },
      fsdp::testing::patient_options());
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex("is saving a checkpoint there|save_checkpoint|is gone|returned early"));
}

// A run that was saved on 2 x 2 x 2 goes on, on 4 x 1 x 2, as if it had not ended.
TEST(MeshCheckpoint, GoesOnOnAnotherMesh) {
  const ScratchDirectory scratch;
  run_ranks(8, [&](World& world) {
    MeshTraining run(world, {2, 2, 2});
    run.step_to(kSavedStep);
    save_checkpoint(scratch.path() / "saved", run.checkpoint());
  });
  run_ranks(8, [&](World& world) {
    MeshTraining run(world, {4, 1, 2}, 7);
    const auto loaded = load_latest_checkpoint(scratch.path(), run.checkpoint());
    ASSERT_TRUE(loaded);
    run.steps = static_cast<int>(loaded->step);
    run.step_to(kSavedStep + 2);
    save_checkpoint(scratch.path() / "later", run.checkpoint());
  });
  run_ranks(1, [&](World& world) {
    MeshTraining expected(world, {}), found(world, {}, 7);
    expected.step_to(kSavedStep + 2);
    load_checkpoint(scratch.path() / "later", found.checkpoint());
    expect_same_state(found, expected);
  });
}

// Elements that several ranks hold are in one file.
TEST(MeshCheckpoint, HasEachElementOnce) {
  const ScratchDirectory scratch;
  const auto bytes_of = [&](const std::string& name) {
    int64_t numel = 0;
    for (const auto& parameter : checkpoint::read_manifest(scratch.path() / name).parameters) {
      for (const auto& part : parameter.parts) numel += part.placement.numel();
    }
    return numel;
  };
  run_ranks(1, [&](World& world) {
    MeshTraining run(world, {});
    save_checkpoint(scratch.path() / "one", run.checkpoint());
  });
  run_ranks(8, [&](World& world) {
    MeshTraining run(world, {2, 1, 4});
    save_checkpoint(scratch.path() / "mesh", run.checkpoint());
  });
  EXPECT_EQ(bytes_of("mesh"), bytes_of("one"));
  const auto manifest = checkpoint::read_manifest(scratch.path() / "mesh");
  EXPECT_EQ(manifest.world_size, 8);
  EXPECT_EQ(manifest.files.size(), 8U);
}

std::string bytes_of_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A Hugging Face file of one rank, loaded on a mesh and saved there: the same bytes. So are those after a step, which
// uses each row where it belongs.
TEST(MeshPretrained, FilesHaveTheBytesOfOneRank) {
  const ScratchDirectory scratch;
  const PretrainedOptions options{.transposed = {"*.qkv.weight", "*.down.weight"}};
  run_ranks(1, [&](World& world) {
    for (const bool tied : {false, true}) {
      MeshTraining run(world, {.tied = tied}, 3);
      const PretrainedOptions with = tied ? PretrainedOptions{} : options;
      save_pretrained(scratch.path() / (tied ? "tied" : "one"), run.sharded, with);
      run.step_to(1);
      save_pretrained(scratch.path() / (tied ? "tied_after" : "one_after"), run.sharded, with);
    }
  });
  const std::vector<MeshShape> shapes{
      {2, 2, 2}, {1, 2, 4}, {1, 2, 2, 2}, {2, 1, 4}, {2, 2, 1, 1, Strategy::FullShard, true}};
  for (const MeshShape& shape : shapes) {
    SCOPED_TRACE(shape.name());
    const std::string name = shape.tied ? "tied" : "one";
    const fs::path from = scratch.path() / name, to = scratch.path() / ("to" + shape.name());
    const fs::path from_after = scratch.path() / (name + "_after"),
                   to_after = scratch.path() / ("after" + shape.name());
    run_ranks(shape.ranks(), [&](World& world) {
      MeshTraining run(world, shape, 7);
      PretrainedOptions on_mesh = shape.tied ? PretrainedOptions{} : options;
      on_mesh.mesh = run.mesh;
      load_pretrained(from, run.sharded, on_mesh);
      save_pretrained(to, run.sharded, on_mesh);
      run.step_to(1);
      save_pretrained(to_after, run.sharded, on_mesh);
      on_mesh.transposed.push_back("none.*");
      EXPECT_THAT(message_of<Error>([&] { load_pretrained(from, run.sharded, on_mesh); }),
                  HasSubstr("the pattern 'none.*' of transposed matches no parameter"));
    });
    EXPECT_FALSE(bytes_of_file(from / "model.safetensors").empty());
    EXPECT_EQ(bytes_of_file(to / "model.safetensors") == bytes_of_file(from / "model.safetensors"), true);
    EXPECT_EQ(bytes_of_file(to_after / "model.safetensors") == bytes_of_file(from_after / "model.safetensors"), true);
  }
}

TEST(MeshPretrained, FilesHaveTheOrderThatIsGiven) {
  const ScratchDirectory scratch;
  for (const MeshShape& shape : {MeshShape{}, MeshShape{1, 2, 1}}) {
    run_ranks(shape.ranks(), [&](World& world) {
      MeshTraining run(world, shape, 3);
      const PretrainedOptions options{.mesh = run.mesh, .order = {"logits.head.bias", "words.table.weight", "none"}};
      save_pretrained(scratch.path() / shape.name(), run.sharded, options);
    });
    const std::string header = bytes_of_file(scratch.path() / shape.name() / "model.safetensors");
    const size_t first = header.find("logits.head.bias"), second = header.find("words.table.weight");
    ASSERT_NE(first, std::string::npos);
    EXPECT_LT(first, second);
    EXPECT_LT(second, header.find("layers.0"));
    EXPECT_LT(second, header.find("logits.head.weight"));
  }
}

TEST(MeshCheckpoint, FailsOnAllRanksIfOneFails) {
  const ScratchDirectory scratch;
  run_ranks(4, [&](World& world) {
    MeshTraining run(world, {1, 2, 2});
    save_checkpoint(scratch.path() / "saved", run.checkpoint());
    run.step_to(1);
    Checkpoint bad = run.checkpoint();
    if (world.rank() == 3) bad.generators["none"] = at::Generator();
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / "saved", bad); }),
                HasSubstr("'none' is undefined"));
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint_async(scratch.path() / "saved", bad).wait(); }),
                HasSubstr("'none' is undefined"));
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", bad); }),
                HasSubstr("'none' is undefined"));
    EXPECT_EQ(load_checkpoint(scratch.path() / "saved", run.checkpoint()), 0);
  });
}

// Rank 3, which holds the last stage, dies while it saves.
TEST(MeshCheckpoint, OfARankThatIsKilledLeavesTheOneBefore) {
  const ScratchDirectory scratch;
  const RunResult result = run_ranks_to_end(
      4,
      [&](World& world) {
        MeshTraining run(world, {2, 2, 1});
        save_checkpoint_async(scratch.path() / "saved", run.checkpoint()).wait();
        run.step_to(1);
        const checkpoint::CheckpointRanks ranks(run.sharded.model(), run.mesh);
        checkpoint::background_saves_of(run.sharded.model(), ranks).watch_steps([&](auto step) {
          if (world.rank() == 3 && step == checkpoint::BackgroundSaves::Step::Write) raise(SIGKILL);
        });
        save_checkpoint_async(scratch.path() / "saved", run.checkpoint()).wait();
      },
      fsdp::testing::patient_options());
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "saved");
  EXPECT_EQ(checkpoint::read_manifest(scratch.path() / "saved").step, 0);
}

TEST(MeshCheckpoint, OfOtherModelsIsAnError) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    MeshTraining run(world, {1, 2, 1});
    save_checkpoint(scratch.path() / "saved", run.checkpoint());
    Checkpoint stage = run.checkpoint();
    stage.mesh.reset();  // each stage by itself: each rank is alone
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "saved", stage); }), HasSubstr("is unknown"));
    save_checkpoint(scratch.path() / std::to_string(world.rank()), stage);
    world.barrier();
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "0", run.checkpoint()); }),
                HasSubstr("logits.head.weight is missing"));
  });
  run_ranks(2, [&](World& world) {
    MeshTraining run(world, {1, 1, 2});
    Checkpoint part = run.checkpoint();
    part.mesh.reset();
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / std::to_string(world.rank()), part); }),
                HasSubstr("set Checkpoint::mesh"));
    EXPECT_THAT(message_of<Error>([&] { save_pretrained(scratch.path() / "alone", run.sharded); }),
                HasSubstr("Set PretrainedOptions::mesh"));
  });
}

}  // namespace
}  // namespace fsdp
