// Every changed bit of a checkpoint is found before anything of the model changes, and the file is named.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "checkpoint/damage.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/temporary_folder.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::Flip;
using fsdp::testing::flip;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using fsdp::testing::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_models::make_gpt;

const std::vector<std::string> kFiles = {checkpoint::kManifestName, checkpoint::shard_file_name(0, 2),
                                         checkpoint::shard_file_name(1, 2)};

// Half of the flips fall anywhere in the checkpoint, the others in each file as often.
Flip random_flip(const fs::path& directory, std::mt19937& random) {
  size_t at = 0;
  for (const std::string& file : kFiles) at += fs::file_size(directory / file);
  at = random() % at;
  size_t chosen = 0;
  while (at >= fs::file_size(directory / kFiles[chosen])) at -= fs::file_size(directory / kFiles[chosen++]);
  if (random() % 2 == 0) {
    chosen = random() % kFiles.size();
    at = random() % fs::file_size(directory / kFiles[chosen]);
  }
  return {kFiles[chosen], at, static_cast<int>(random() % 8)};
}

TEST(DamagedCheckpoint, OneThousandFlippedBitsAreAllFoundAndTheirFilesNamed) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    const fs::path directory = scratch.path() / "step-7";
    auto model = make_gpt(), other = make_gpt();
    auto sharded = shard(*model.module, world), loaded = shard(*other.module, world);
    AdamW optimizer(sharded), other_optimizer(loaded);
    save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer, .step = 7, .notes = {{"a", "b"}}});
    for (torch::Tensor& piece : loaded.shards()) torch::NoGradGuard(), piece.fill_(1);
    std::mt19937 random(20);
    for (int i = 0; i < 1000; ++i) {
      const Flip one = random_flip(directory, random);
      if (world.rank() == 0) flip(directory, one);
      world.barrier();
      const std::string message =
          message_of<Error>([&] { load_checkpoint(directory, {.model = &loaded, .optimizer = &other_optimizer}); });
      EXPECT_THAT(message, HasSubstr((directory / one.file).string()))
          << "flip " << i << ": bit " << one.bit << " of byte " << one.byte;
      world.barrier();
      if (world.rank() == 0) flip(directory, one);
    }
    for (const torch::Tensor& piece : loaded.shards()) EXPECT_TRUE(torch::all(piece == 1).item<bool>());
    world.barrier();
    EXPECT_EQ(load_checkpoint(directory, {.model = &loaded, .optimizer = &other_optimizer}), 7);
  });
}

// Files of more than a block, and of tensors that one rank reads in parts.
TEST(DamagedCheckpoint, TheTensorIsNamed) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.path() / "step-7";
  run_ranks(2, [&](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(1024, 1024));
    auto sharded = shard(*model, world);
    AdamW optimizer(sharded);
    save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer});
  });
  run_ranks(3, [&](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(1024, 1024));
    auto sharded = shard(*model, world);
    AdamW optimizer(sharded);
    const checkpoint::SafetensorsFile file(directory / kFiles[1]);
    for (const auto& entry : file.entries()) {
      const auto data_begin = static_cast<size_t>(file.bytes() - file.entries().back().end);
      const Flip one{kFiles[1], data_begin + static_cast<size_t>(entry.begin + entry.bytes() / 2), 3};
      world.barrier();
      if (world.rank() == 0) flip(directory, one);
      world.barrier();
      EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer}); }),
                  AllOf(HasSubstr(kFiles[1]), HasSubstr("of tensor " + entry.name + " is")));
      world.barrier();
      if (world.rank() == 0) flip(directory, one);
    }
  });
}

TEST(DamagedCheckpoint, ShardsThatChangedPlacesAreFound) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    const fs::path directory = scratch.path() / "step-1";
    torch::nn::Sequential model(
        torch::nn::Linear(torch::nn::LinearOptions(64, 64).bias(false)));  // pieces of one size: headers of one length
    auto sharded = shard(*model, world);
    save_checkpoint(directory, {.model = &sharded});
    if (world.rank() == 0) {
      EXPECT_EQ(fs::file_size(directory / kFiles[1]), fs::file_size(directory / kFiles[2]));
      fs::rename(directory / kFiles[1], directory / "aside");
      fs::rename(directory / kFiles[2], directory / kFiles[1]);
      fs::rename(directory / "aside", directory / kFiles[2]);
    }
    world.barrier();
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded}); }),
                HasSubstr("the hash of its header is"));
  });
}

TEST(DamagedCheckpoint, TheShardOfAnotherStepIsNotTaken) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    save_checkpoint(scratch.path() / "step-1", {.model = &sharded, .step = 1});
    for (torch::Tensor& piece : sharded.shards()) torch::NoGradGuard(), piece.mul_(2);
    save_checkpoint(scratch.path() / "step-2", {.model = &sharded, .step = 2});
    const fs::path taken = scratch.path() / "step-2" / kFiles[2];
    if (world.rank() == 0) {
      fs::copy_file(scratch.path() / "step-1" / kFiles[2], taken, fs::copy_options::overwrite_existing);
    }
    world.barrier();
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(scratch.path() / "step-2", {.model = &sharded}); }),
                AllOf(HasSubstr(taken.string()), HasSubstr("of another step")));
  });
}

TEST(DamagedCheckpoint, NothingIsReadOfAFileThatIsNotTheOneThatWasSaved) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const fs::path directory = scratch.path() / "step-5", shard = directory / checkpoint::shard_file_name(0, 1);
    save_checkpoint(directory, {.model = &sharded, .step = 5});
    const int64_t terabyte = int64_t{1} << 40;  // sparse: it takes no room on the disk, and would all of the memory
    const std::string header =
        fmt::format(R"({{"model.tokens.weight":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", terabyte);
    const auto length = static_cast<uint64_t>(header.size());
    write_file(shard, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
    fs::resize_file(shard, sizeof length + length + terabyte);
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded}); }),
                AllOf(HasSubstr(shard.string()), HasSubstr("is damaged: found 1099511627")));
    fs::remove(shard);
    fs::create_directory(shard);
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded}); }),
                HasSubstr("is not a regular file"));
  });
}

}  // namespace
}  // namespace fsdp
