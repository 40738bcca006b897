// Every changed bit of a checkpoint is found before anything of the model changes, and the file is named.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_models::make_gpt;

const std::vector<std::string> kFiles = {checkpoint::kManifestName, checkpoint::shard_file_name(0, 2),
                                         checkpoint::shard_file_name(1, 2)};

void write_file(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

// Changes the text of a manifest, and its hash accordingly.
void change_manifest(const fs::path& directory, const std::string& from, const std::string& to) {
  const fs::path file = directory / checkpoint::kManifestName;
  std::string text = read_bytes(file);
  ASSERT_NE(text.find(from), std::string::npos) << text;
  text.replace(text.find(from), from.size(), to);
  write_file(file, sealed_manifest(text));
}

// Half of the flips fall anywhere in the checkpoint, the others in each file as often.
struct Flip {
  std::string file;
  size_t byte = 0;
  int bit = 0;
};

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

void flip(const fs::path& directory, const Flip& flip) {
  std::fstream file(directory / flip.file, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(flip.byte));
  const auto byte = static_cast<char>(file.get() ^ 1 << flip.bit);
  file.seekp(static_cast<std::streamoff>(flip.byte));
  file.put(byte);
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

// With a hash that fits: made so on purpose, or by a program with a fault.
TEST(DamagedCheckpoint, AManifestIsTakenWithWholeNumbersInTheirRangesAlone) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const fs::path directory = scratch.path() / "step-5";
    const auto refusal_of = [&](const std::string& from, const std::string& to) {
      fs::remove_all(directory);
      save_checkpoint(directory, {.model = &sharded, .step = 5});
      change_manifest(directory, from, to);
      return message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded}); });
    };
    EXPECT_EQ(refusal_of("\"step\": 5", "\"step\": 9007199254740992"), "no error");  // 2^53
    for (const std::string step : {"-1", "5.5", "5.0", "\"5\"", "null", "true", "[5]", "9007199254740993",
                                   "9223372036854775808", "1e300", "-9223372036854775808"}) {
      EXPECT_THAT(refusal_of("\"step\": 5", "\"step\": " + step),
                  AllOf(HasSubstr("manifest.json is damaged"), HasSubstr("for 'step'")))
          << step;
    }
    for (const std::string ranks : {"0", "-1", "1000000000", "\"1\"", "1.5"}) {
      EXPECT_THAT(refusal_of("\"world_size\": 1", "\"world_size\": " + ranks), HasSubstr("for 'world_size'"));
      EXPECT_THAT(refusal_of("\"shards\": 1", "\"shards\": " + ranks), HasSubstr("for 'shards'"));
    }
    EXPECT_THAT(refusal_of("\"version\": 4", "\"version\": 1"),
                HasSubstr("found version 1 of the format, expected 2 to 4"));
    EXPECT_THAT(refusal_of("fsdp-checkpoint", "fsdp-chockpoint"), HasSubstr("JSON of another kind"));
    EXPECT_THAT(refusal_of("shard-00001", "../hard-1"),
                HasSubstr("found \"../hard-1-of-00001.safetensors\" for 'files[0].name', expected shard-00001"));
    EXPECT_THAT(refusal_of("\"notes\": {}", "\"notes\": {\"a\": 1}"),
                HasSubstr("found 1 for 'notes.a', expected a text"));
    EXPECT_THAT(refusal_of("\"notes\": {}", "\"notes\": []"),
                HasSubstr("found [] for 'notes', expected values by their names"));
    EXPECT_THAT(refusal_of("\"shape\": [", "\"shape\": [[], "), HasSubstr("found [] for 'parameters[0].shape[0]'"));
    EXPECT_THAT(refusal_of("\"step\": 5", "\"step\": 5, \"step\": 6"), HasSubstr("names step twice"));
    const auto part = [](const std::string& file, const std::string& offset, const std::string& begin,
                         const std::string& numel, const std::string& more = "") {
      return fmt::format(R"({{"file": {}, "offset": {}, "begin": {}, "numel": {}{}}})", file, offset, begin, numel,
                         more);
    };
    const std::string all = part("0", "0", "0", "1952");
    const std::vector<std::string> wrong = {"",
                                            part("0", "0", "0", "1"),
                                            part("1", "0", "0", "1952"),
                                            all + ", " + part("0", "1952", "1952", "0"),
                                            part("0", "0", "0", "-1"),
                                            "0, 1952",
                                            part("0", "0", "0", "9223372036854775807"),
                                            part("0", "0", "1", "1951"),
                                            part("0", "1", "0", "1952"),
                                            part("0", "0", "0", "1952", ", \"box\": []"),
                                            part("0", "0", "0", "1952", ", \"box\": [[0, 61], [0, 33]]"),
                                            part("0", "0", "0", "1952", ", \"box\": [[0, 61], [1, 32]]"),
                                            part("0", "0", "0", "1920", ", \"box\": [[0, 60], [0, 32]]"),
                                            part("0", "0", "0", "976", ", \"box\": [[0, 61], [0, 16]]") + ", " +
                                                part("0", "976", "0", "976", ", \"box\": [[0, 61], [15, 16]]")};
    const std::string written =
        "[\n        {\n          \"file\": 0,\n          \"offset\": 0,\n          \"begin\": 0,\n          "
        "\"numel\": 1952\n        }\n      ]";
    for (const std::string& parts : wrong) {
      EXPECT_THAT(refusal_of("\"parts\": " + written, "\"parts\": [" + parts + "]"),
                  HasSubstr("manifest.json is damaged"))
          << parts;
    }
    EXPECT_THAT(refusal_of("\"parts\": " + written, "\"parts\": {}"), HasSubstr("manifest.json is damaged"));
    EXPECT_EQ(refusal_of("\"parts\": " + written,
                         "\"parts\": [" + part("0", "0", "0", "64") + ", " + part("0", "64", "64", "1888") + "]"),
              "no error");
    EXPECT_THAT(refusal_of("\"model\": \"F32\"", "\"model\": \"F16\""), HasSubstr("is F16, expected F32"));
    EXPECT_THAT(refusal_of("\"model\": \"F32\"", "\"other\": \"F32\""),
                HasSubstr("for 'parameters[0].tensors', expected the dtype of 'model'"));
    EXPECT_THAT(refusal_of("\"scalars\": {}", "\"scalars\": {\"a\": \"b\"}"),
                HasSubstr("found \"b\" for 'parameters[0].scalars.a', expected a number"));
    EXPECT_THAT(refusal_of("\"buffers\": []", "\"buffers\": [5]"),
                HasSubstr("found 5 for 'buffers[0]', expected an object"));
    const std::string deep(200'000, '[');
    EXPECT_THAT(refusal_of("\"notes\": {}", "\"notes\": " + deep), HasSubstr("nest deeper than"));
    EXPECT_THAT(refusal_of("\"notes\": {}", "\"notes\": {\"\x1b[31m\": 5}"), ::testing::Not(HasSubstr("\x1b")));
  });
}

// Of an optimizer that has made a step, and a module with buffers.
TEST(DamagedCheckpoint, AForgedManifestIsAnErrorThatSaysThePlaceWhatWasFoundAndExpected) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
    auto sharded = shard(*net, world);
    AdamW optimizer(sharded);
    net->forward(torch::ones({4, 3})).sum().backward();
    optimizer.step();
    const fs::path directory = scratch.path() / "step-1";
    const auto refusal_of = [&](const std::string& from, const std::string& to) {
      fs::remove_all(directory);
      save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer, .step = 1});
      change_manifest(directory, from, to);
      return message_of<Error>([&] { load_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer}); });
    };
    const auto says = [](const std::string& found, const std::string& place, const std::string& expected) {
      return HasSubstr(fmt::format("manifest.json is damaged: found {} for '{}', expected {}", found, place, expected));
    };
    const std::string step = "\"optimizer.step\": 1.0", count = "a whole number from 0 to 9007199254740992";
    const std::map<std::string, std::string> as_shown = {{"-1", "-1"},
                                                         {"1.5", "1.5"},
                                                         {"-0.5", "-0.5"},
                                                         {"18446744073709551616", "1.8446744073709552e+19"},
                                                         {"9007199254740994", "9007199254740994"},
                                                         {"1e300", "1e+300"}};
    for (const auto& [written, shown] : as_shown) {
      EXPECT_THAT(refusal_of(step, "\"optimizer.step\": " + written),
                  says(shown, "parameters[0].scalars.optimizer.step", count));
    }
    EXPECT_THAT(refusal_of(step, "\"optimizer.step\": null"),
                says("null", "parameters[0].scalars.optimizer.step", "a number"));
    EXPECT_THAT(refusal_of("\"name\": \"0.bias\"", "\"name\": \"0.weight\""),
                says("\"0.weight\"", "parameters[1].name", "a name that none before has"));
    EXPECT_THAT(refusal_of("\"name\": \"1.running_var\"", "\"name\": \"1.running_mean\""),
                says("\"1.running_mean\"", "buffers[1].name", "a name that none before has"));
    for (const std::string key : {"notes", "files", "parameters", "buffers"}) {
      EXPECT_THAT(refusal_of("\"" + key + "\": ", "\"no " + key + "\": "), says("nothing", key, ""));
    }
    EXPECT_THAT(refusal_of("\"strides\": [", "\"strides\": [-1, "),
                says("-1", "parameters[0].strides[0]", "a whole number from 0 to"));
    EXPECT_EQ(refusal_of(step, "\"optimizer.step\": 9007199254740992"), "no error");
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

TEST(LoadLatestCheckpoint, PassesOverWhatIsDamagedAndSaysWhy) {
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const Checkpoint state{.model = &sharded};
    EXPECT_FALSE(load_latest_checkpoint(scratch.path(), state));
    EXPECT_FALSE(load_latest_checkpoint(scratch.path() / "nowhere", state));
    for (int64_t step : {3, 12, 7, 9}) {
      save_checkpoint(scratch.path() / fmt::format("step-{}", step), {.model = &sharded, .step = step});
    }
    EXPECT_EQ(load_latest_checkpoint(scratch.path(), state)->step, 12);
    world.barrier();
    const std::string shard = checkpoint::shard_file_name(1, 2);
    const auto damage = [&](const std::function<void()>& change) {
      if (world.rank() == 0) change();
      world.barrier();
    };
    damage([&] {
      flip(scratch.path() / "step-12", {checkpoint::kManifestName, 60, 0});
      flip(scratch.path() / "step-9", {shard, fs::file_size(scratch.path() / "step-9" / shard) - 1, 0});
    });
    const auto loaded = load_latest_checkpoint(scratch.path(), state);
    EXPECT_EQ(loaded->step, 7);
    EXPECT_EQ(loaded->directory, scratch.path() / "step-7");
    EXPECT_THAT(loaded->passed_over, ElementsAre(HasSubstr("step-12"), HasSubstr("step-9")));
    damage([&] {
      for (const char* name : {"step-7", "step-3"}) fs::remove(scratch.path() / name / shard);
    });
    EXPECT_THAT(message_of<Error>([&] { load_latest_checkpoint(scratch.path(), state); }),
                AllOf(HasSubstr("none of the 4 checkpoints"), HasSubstr("step-12"), HasSubstr("step-9"),
                      HasSubstr("step-7"), HasSubstr("step-3")));
  });
}

TEST(LatestCheckpoint, PassesOverLoopsOfLinksAndWhatIsDamaged) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    for (int64_t step : {3, 12, 7}) {
      save_checkpoint(scratch.path() / fmt::format("step-{}", step), {.model = &sharded, .step = step});
    }
    fs::create_symlink("loop", scratch.path() / "loop");
    fs::create_symlink("nowhere", scratch.path() / "dangling");
    write_file(scratch.path() / "file", "text");
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-12");
    flip(scratch.path() / "step-12", {checkpoint::kManifestName, 60, 0});
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-7");
    const std::string shard = checkpoint::shard_file_name(0, 1);
    fs::resize_file(scratch.path() / "step-7" / shard, fs::file_size(scratch.path() / "step-7" / shard) - 1);
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-3");
    flip(scratch.path() / "step-3", {shard, 40, 0});  // in its header
    EXPECT_EQ(latest_checkpoint(scratch.path()), std::nullopt);
    save_checkpoint(scratch.path() / "step-4", {.model = &sharded, .step = 4});
    EXPECT_EQ(latest_checkpoint(scratch.path()), scratch.path() / "step-4");
    fs::remove(scratch.path() / "step-4" / shard);
    EXPECT_EQ(latest_checkpoint(scratch.path()), std::nullopt);
    EXPECT_EQ(latest_checkpoint(scratch.path() / "loop"), std::nullopt);
    EXPECT_EQ(latest_checkpoint(scratch.path() / "file"), std::nullopt);
  });
}

TEST(SaveCheckpoint, RefusesNamesOfWhatIsUnfinishedAndNone) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    torch::nn::Linear net(3, 2);
    auto sharded = shard(*net, world);
    for (const char* name : {"run.partial-before", "run.partial-replaced", "run.partial.lock"}) {
      EXPECT_THAT(message_of<Error>([&] { save_checkpoint(scratch.path() / name, {.model = &sharded}); }),
                  HasSubstr("a save to 'run' uses such names"));
    }
    EXPECT_THAT(message_of<Error>([&] { save_checkpoint("", {.model = &sharded}); }), HasSubstr("found no directory"));
    EXPECT_THAT(message_of<Error>([&] { save_pretrained("", sharded); }), HasSubstr("found no directory"));
    save_checkpoint(scratch.path() / "run.partial", {.model = &sharded});
  });
}

TEST(SaveCheckpoint, RefusesAStepThatIsNone) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    for (int64_t step : {int64_t{-1}, checkpoint::kHighestStep + 1}) {
      EXPECT_THAT(
          message_of<Error>([&] { save_checkpoint(scratch.path() / "step", {.model = &sharded, .step = step}); }),
          HasSubstr("expected a number from 0 to 2^53"));
    }
    EXPECT_TRUE(fs::is_empty(scratch.path()));
  });
}

}  // namespace
}  // namespace fsdp
