// A manifest that was changed on purpose, with a hash that fits, is an error that says the place.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "checkpoint/damage.h"
#include "checkpoint/manifest.h"
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
using testing_models::make_gpt;

// Changes the text of a manifest, and its hash accordingly.
void change_manifest(const fs::path& directory, const std::string& from, const std::string& to) {
  const fs::path file = directory / checkpoint::kManifestName;
  std::string text = read_bytes(file);
  ASSERT_NE(text.find(from), std::string::npos) << text;
  text.replace(text.find(from), from.size(), to);
  fsdp::testing::write_file(file, sealed_manifest(text));
}

// How the checkpoint of `state` is refused if its manifest was changed, or "no error".
std::string refusal_of(const fs::path& directory, const Checkpoint& state, const std::string& from,
                       const std::string& to) {
  fs::remove_all(directory);
  save_checkpoint(directory, state);
  change_manifest(directory, from, to);
  return message_of<Error>([&] { load_checkpoint(directory, state); });
}

TEST(DamagedCheckpoint, AManifestIsTakenWithWholeNumbersInTheirRangesAlone) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    const auto refusal_of = [&](const std::string& from, const std::string& to) {
      return fsdp::refusal_of(scratch.path() / "step-5", {.model = &sharded, .step = 5}, from, to);
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

// The optimizer has made a step, and the module has buffers.
TEST(DamagedCheckpoint, AForgedManifestIsAnErrorThatSaysThePlaceWhatWasFoundAndExpected) {
  const ScratchDirectory scratch;
  run_ranks(1, [&](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
    auto sharded = shard(*net, world);
    AdamW optimizer(sharded);
    net->forward(torch::ones({4, 3})).sum().backward();
    optimizer.step();
    const Checkpoint state{.model = &sharded, .optimizer = &optimizer, .step = 1};
    const auto refusal_of = [&](const std::string& from, const std::string& to) {
      return fsdp::refusal_of(scratch.path() / "step-1", state, from, to);
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

}  // namespace
}  // namespace fsdp
