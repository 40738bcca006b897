// fsdp-plan with parameters instead of a model, as people start it.
#include <gmock/gmock.h>

#include <cstring>
#include <sstream>

#include "apps/fsdp-plan/run_plan.h"
#include "files/json.h"
#include "support/sealed_manifest.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kList =
    "embed.weight [1000, 64] torch.bfloat16\n"
    "head.weight = embed.weight\n"
    "layers.0.fc.weight [64, 64]\n"
    "layers.1.fc.weight [64, 64]\n"
    "norm.weight [64]\n";

nlohmann::json listed_plan(const std::string& arguments) {
  const Ending ending = run_plan(arguments + " --json");
  EXPECT_EQ(ending.code, 0) << ending.output;
  return fsdp::files::parse_json(ending.output, "plan");
}

TEST(ListedPlan, HasTheStateAndNullForTheRest) {
  const TemporaryFolder folder;
  const std::string list = folder.write("model.txt", kList);
  const auto json = listed_plan(list + " --ranks 4");
  EXPECT_EQ(json.at("parameters"), 72'256);
  EXPECT_NEAR(json.at("memory").at("optimizer").get<double>(), 8 * 72'256 / 4, 8 * 64);
  EXPECT_TRUE(json.at("memory").at("peak").is_null());
  EXPECT_TRUE(json.at("time").is_null());
  EXPECT_TRUE(json.at("limits").is_null());
  EXPECT_TRUE(json.at("fits").is_null());
  EXPECT_GT(json.at("communication").at("within_hosts"), 0);
  EXPECT_EQ(listed_plan(list + " --ranks 4 --memory 1kB").at("fits"), false);
}

TEST(ListedPlan, SaysWhatIsNotKnown) {
  const TemporaryFolder folder;
  const std::string list = folder.write("model.txt", kList);
  const Ending ending = run_plan(list + " --ranks 4");
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr(": 72,256 parameters in 3 units\n4 ranks on 1 host of h100, fp32\n"),
                    HasSubstr("\n  state and buffers "), HasSubstr("leaves 84.9 GB of 84.9 GB"),
                    HasSubstr("\nActivations and time are not known: MODEL lists parameters, not how they are used.\n"),
                    Not(HasSubstr("peak"))));
  EXPECT_THAT(run_plan("compare " + list + " --ranks 4").output,
              AllOf(HasSubstr("state"), HasSubstr("full-shard over 2"), HasSubstr("not known")));
}

TEST(ListedPlan, RefusesOptionsOfShapes) {
  const TemporaryFolder folder;
  const std::string list = folder.write("model.txt", kList);
  const auto output = [&](const std::string& options) { return run_plan(list + " --ranks 4 " + options).output; };
  for (const char* option : {"--width 64", "--context 64", "--lora 4", "--tensor-parallel 2", "--pipeline-parallel 2"})
    EXPECT_THAT(output(option), HasSubstr("is given, and MODEL lists parameters, which have no shape of layers."))
        << option;
  EXPECT_THAT(output("--sequence 64"), HasSubstr("--sequence or --context is given"));
  EXPECT_THAT(output("--freeze layer.*"), HasSubstr("--freeze: 'layer.*' matches no parameter of the model"));
  EXPECT_THAT(run_plan("search " + list + " --ranks 4").output,
              HasSubstr("search: MODEL lists parameters, expected a model whose layers are known."));
  EXPECT_THAT(run_plan("scaling " + list).output,
              HasSubstr("scaling: MODEL lists parameters, expected a model whose layers are known."));
}

TEST(ListedPlan, FreezesByName) {
  const TemporaryFolder folder;
  const std::string list = folder.write("model.txt", kList);
  EXPECT_EQ(listed_plan(list + " --freeze embed").at("memory").at("optimizer"), 8 * (72'256 - 64'000));
  EXPECT_THAT(run_plan(list + " --freeze=*").output, HasSubstr("--freeze * leaves no parameter to train."));
}

// A manifest with the parameters of a model of one layer without bias.
std::string manifest_of(const std::string& parameters) {
  const std::string zeros(fsdp::files::kHashDigits, '0');
  return sealed_manifest("{\n  \"hash\": \"" + zeros +
                         R"(", "format": "fsdp-checkpoint", "version": 2, "world_size": 1, "shards": 1, "step": 7,
    "notes": {}, "files": [{"name": "shard-00001-of-00001.safetensors", "bytes": 100, "hash": ")" +
                         zeros + R"("}], "parameters": [)" + parameters + "]}");
}

std::string stored(const std::string& name, const std::string& shape) {
  return R"({"name": ")" + name + R"(", "shape": )" + shape + R"(, "strides": )" + shape + "}";
}

TEST(ListedPlan, ReadsACheckpoint) {
  const TemporaryFolder folder;
  folder.write("step-7/manifest.json", manifest_of(stored("w", "[300, 2]")));
  EXPECT_EQ(listed_plan((folder / "step-7") + " --ranks 1").at("parameters"), 600);
  EXPECT_EQ(listed_plan((folder / "step-7/manifest.json") + " --ranks 1").at("parameters"), 600);
}

TEST(ListedPlan, TakesTheShapeOfTheRunThatACheckpointIsOf) {
  const TemporaryFolder folder;
  const std::string embeddings =
      stored("model.embed_tokens.weight", "[50, 8]") + "," + stored("model.norm.weight", "[8]");
  std::string layer;
  for (const auto& [name, shape] : {std::pair("input_layernorm", "[8]"),
                                    {"self_attn.q_proj", "[8, 8]"},
                                    {"self_attn.k_proj", "[8, 8]"},
                                    {"self_attn.v_proj", "[8, 8]"},
                                    {"self_attn.o_proj", "[8, 8]"},
                                    {"post_attention_layernorm", "[8]"},
                                    {"mlp.gate_proj", "[32, 8]"},
                                    {"mlp.up_proj", "[32, 8]"},
                                    {"mlp.down_proj", "[8, 32]"}})
    layer += "," + stored("model.layers.0." + std::string(name) + ".weight", shape);
  folder.write("step-7/manifest.json", manifest_of(embeddings + layer));
  folder.write("config.toml",
               "[model]\nmodel = \"llama-tiny\"\nvocabulary = 50\ncontext = 16\nwidth = 8\nlayers = 1\nheads = 2\n"
               "key_value_heads = 2\nmlp_width = 32\ntie_embeddings = true\n");
  const auto json = listed_plan((folder / "step-7") + " --ranks 1");
  EXPECT_EQ(json.at("parameters"), 400 + 8 + 2 * 8 + 4 * 64 + 3 * 256);
  EXPECT_GT(json.at("memory").at("activations"), 0);
  EXPECT_TRUE(json.at("time").is_object());
  EXPECT_EQ(listed_plan(folder.path().string() + " --ranks 1"), json);
  // The run trained another model than the checkpoint has.
  folder.write("step-7/manifest.json", manifest_of(embeddings));
  EXPECT_TRUE(listed_plan((folder / "step-7") + " --ranks 1").at("time").is_null());
}

TEST(ListedPlan, ReadsAFolderOfHuggingFace) {
  const TemporaryFolder folder;
  const std::string config = R"({"model_type": "gpt2", "vocab_size": 50, "n_embd": 32, "n_positions": 16, "n_layer": 2,
                                 "n_head": 2})";
  const std::string header = R"({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}})";
  const uint64_t length = header.size();
  folder.write("model.safetensors", std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
  EXPECT_EQ(listed_plan(folder.path().string() + " --ranks 1").at("parameters"), 6);
  folder.write("config.json", config);
  EXPECT_TRUE(listed_plan(folder.path().string() + " --ranks 1").at("time").is_object());
}

TEST(ListedPlan, SaysThatAFolderHoldsNoModel) {
  const TemporaryFolder folder;
  const Ending ending = run_plan(folder.path().string());
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("holds no model: found no manifest.json, config.json"),
                                   HasSubstr("fsdp-plan: 1 problem\n")));
}

}  // namespace
