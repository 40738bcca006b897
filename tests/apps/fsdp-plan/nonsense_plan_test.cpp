// Arguments and files that no run can have: each is an error that says where and what, and none is a plan.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "fsdp-plan/model_plan.h"
#include "fsdp/error.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::HasSubstr;

// The problems of a plan; empty if there is a plan.
std::string problems_of(const std::vector<std::string>& words) try {
  std::string all;
  for (const std::string& problem : planner::plan_model(words, 80).problems) all += problem + "\n";
  return all;
} catch (const fsdp::Error& error) {
  return error.what();
}

struct Nonsense {
  std::vector<std::string> options;
  const char* problem;
};

TEST(NonsensePlans, OfOptionsAreRefused) {
  const Nonsense all[] = {
      {{"--ranks", "0"}, "--ranks is 0; it must be at least 1."},
      {{"--ranks", "-3"}, "--ranks is -3; it must be at least 1."},
      {{"--ranks", "1e30"}, "--ranks is 1e30; it must be at most 1048576."},
      {{"--ranks", "nan"}, "--ranks: 'nan' is not a whole number."},
      {{"--ranks", "8", "--hosts", "3"}, "--hosts 3 does not divide --ranks 8"},
      {{"--ranks", "1", "--hosts", "3"}, "--hosts 3 does not divide --ranks 1"},
      {{"--hosts", "0"}, "--hosts is 0; it must be at least 1."},
      {{"--ranks", "8", "--shard-group-size", "3"}, "--shard-group-size 3 does not divide --ranks 8."},
      {{"--strategy", "no-shard", "--shard-group-size", "2", "--ranks", "2"}, "which shards nothing"},
      {{"--memory", "-1"}, "--memory is '-1'; it must be bytes above 0"},
      {{"--memory", "nan"}, "--memory is 'nan'; it must be bytes above 0"},
      {{"--memory", "1e400"}, "--memory is '1e400'; it must be bytes above 0"},
      {{"--activation-memory", "nan"}, "--activation-memory is nan; it must be bytes above 0"},
      {{"--batch", "0"}, "--batch is 0; it must be at least 1."},
      {{"--buffers", "0"}, "--buffers is 0; it must be at least 2."},
      {{"--prefetch", "-1"}, "--prefetch is -1; it must be at least 0."},
      {{"--lora", "0"}, "--lora is 0; it must be at least 1."},
      {{"--sequence", "0"}, "--context is 0; it must be at least 1."},
      {{"--batch", "65536", "--micro-batches", "65536", "--ranks", "1048576"}, "more than can be counted"},
      {{"--batch", "65536", "--micro-batches", "65536", "--ranks", "1048576", "--steps", "1", "--sequence", "131072"},
       "more than can be counted"},
      {{"--ranks", "100", "--pipeline-parallel", "100"}, "found 8 blocks for 100 stages"},
      {{"--ranks", "3", "--pipeline-parallel", "2"}, "= 2 ranks do not divide --ranks 3. Use --ranks 2 or 4."},
      {{"--ranks", "8", "--tensor-parallel", "8"}, "--tensor-parallel: "},
      {{"--strategy", "magic"}, "--strategy is 'magic'; it must be one of"},
      {{"--engine", "magic"}, "--engine is 'magic'; it must be one of"},
      {{"--hardware", ""}, "hardware '' is neither a file nor one of"},
      {{"--hardware", "/dev/zero"}, "it is not a regular file"},
      {{"--hardware", std::string(5000, 'a')}, "is neither a file nor one of"},
      {{"--memory"}, "--memory needs a value."},
      {{"--memory", "1GB", "--memory", "2GB"}, "--memory is given twice."}};
  for (const Nonsense& nonsense : all) {
    std::vector<std::string> words = {"gpt2-tiny"};
    words.insert(words.end(), nonsense.options.begin(), nonsense.options.end());
    EXPECT_THAT(problems_of(words), HasSubstr(nonsense.problem)) << ::testing::PrintToString(nonsense.options);
  }
}

struct NonsenseFile {
  const char* name;
  const char* text;
  const char* problem;
};

TEST(NonsensePlans, OfModelsAreRefused) {
  const NonsenseFile all[] = {
      {"a.toml", "width = nan\n", "width has to be a whole number"},
      {"a.toml", "layers = -1\n", "layers is -1; it must be at least 1."},
      {"a.toml", "norm_epsilon = nan\n", "norm_epsilon is nan"},
      {"a.toml", "vocabulary = 1000000000000000000\n", "it must be at most 1000000000."},
      {"a.toml", "vocabulary = 100000000000000000000\n", "not representable in 64 bits"},
      {"a.toml", "family = \"llama\"\nwidth = 1000000\nlayers = 1000\nheads = 1000\nvocabulary = 1000000000\n",
       "may not fit in 64 bits"},
      {"a.toml", "context = 1000000000\nvocabulary = 1000000000\nlayers = 1\n", "may not fit in 64 bits"},
      {"config.json", R"({"model_type": "llama", "num_hidden_layers": 0})", "layers is 0; it must be at least 1."},
      {"config.json", R"({"model_type": "gpt2", "n_embd": -8})", "width is -8; it must be at least 1."},
      {"config.json", R"({"model_type": "gpt2", "n_embd": 1e400})", "is damaged"},
      {"config.json", R"({"model_type": "llama", "hidden_size": NaN})", "is damaged"},
      {"config.json", R"({"model_type": "llama", "num_attention_heads": 7})", "is not a multiple of heads"},
      {"config.json", R"({"model_type": "mamba"})", "model_type is \"mamba\"; accepted:"},
      {"config.json", "", "is damaged"},
      {"a.txt", "a [1000000000, 1000000000]\n", "found more than 2^53 elements"},
      {"a.txt", "a [-1]\n", "found the shape '[-1]' of 'a'"},
      {"a.txt", "", "expected at least 1 element"},
      {"a.safetensors", "x", "ends at byte"},
      {"manifest.json", "{}", "found JSON of another kind, expected format fsdp-checkpoint"},
      {"a.index.json", "{}", "found no weight_map"}};
  for (const NonsenseFile& nonsense : all) {
    const TemporaryFolder folder;
    const std::string file = folder.write(nonsense.name, nonsense.text);
    EXPECT_THAT(problems_of({file}), HasSubstr(nonsense.problem)) << nonsense.name << ": " << nonsense.text;
  }
}

TEST(NonsensePlans, OfMissingModelsAreRefused) {
  EXPECT_THAT(problems_of({"nothing.txt"}), HasSubstr("nothing.txt' cannot be read: No such file"));
  EXPECT_THAT(problems_of({"/dev/zero"}), HasSubstr("it is not a regular file"));
  EXPECT_THAT(problems_of({std::string(5000, 'a') + ".json"}), HasSubstr("Name a shorter one."));
  EXPECT_THAT(problems_of({"gpt2-tiiny"}), HasSubstr("did you mean gpt2-tiny?"));
}

// A folder of another family has its parameters all the same, and the error says so.
TEST(NonsensePlans, OfOtherFamiliesNameTheFileOfTheirParameters) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"model_type": "mamba"})");
  folder.write("model.safetensors", "x");
  EXPECT_THAT(problems_of({folder.path().string()}), HasSubstr("name '" + (folder / "model.safetensors") + "'."));
}

}  // namespace
