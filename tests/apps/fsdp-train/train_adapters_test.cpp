// Parameters that are not trained, and low-rank adapters beside them.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

using TensorBytes = std::map<std::string, std::string>;

// The tensors of a safetensors file: a length of 8 bytes, a header in JSON, then the bytes.
TensorBytes tensors_of(const std::string& path) {
  const std::string file = read_bytes(path);
  uint64_t length = 0;
  if (file.size() < sizeof(length)) return {};
  std::memcpy(&length, file.data(), sizeof(length));
  TensorBytes tensors;
  const json header = json::parse(file.substr(sizeof(length), length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = file.substr(sizeof(length) + length + begin, end - begin);
  }
  return tensors;
}

class TrainAdapters : public TrainProgram {
 protected:
  // A model in Hugging Face's format, to be tuned: FOLDER/base/model.
  void make_base(const std::string& more = "") {
    const Ending ending = tiny("base", "--steps 3 --export " + more);
    ASSERT_EQ(ending.code, 0) << ending.output;
  }
  std::string from_base() const {
    return "--model " + (folder_ / "base/model") + " --init-from " + (folder_ / "base/model") + " ";
  }
  std::string weights(const std::string& run) const { return folder_ / (run + "/model/model.safetensors"); }
  std::string adapter(const std::string& run) const { return folder_ / (run + "/adapter/adapter_model.safetensors"); }
  void train(const std::string& run, const std::string& more) {
    const Ending ending = tiny(run, more);
    ASSERT_EQ(ending.code, 0) << ending.output;
  }
};

TEST_F(TrainAdapters, AreTheSameWithEveryStrategy) {
  const std::vector<std::pair<std::string, std::string>> models = {{"gpt2-tiny", "c_attn,mlp.c_proj"},
                                                                   {"llama-tiny --key-value-heads 1", "all"}};
  for (const auto& [model, targets] : models) {
    SCOPED_TRACE(model);
    for (const char* run : {"base", "one"}) fs::remove_all(folder_ / run);
    make_base("--model " + model);
    const std::string job =
        from_base() + "--steps 4 --lora 3 --lora-dropout 0.2 --lr 0.01 --export --lora-targets " + targets;
    train("one", job + " --micro-batches 2");
    for (const char* strategy :
         {"full-shard", "shard-grad-op", "shard-optimizer", "no-shard", "hybrid-shard --shard-group-size 1"}) {
      SCOPED_TRACE(strategy);
      fs::remove_all(folder_ / "two");
      train("two", job + " --ranks 2 --strategy " + strategy);
      EXPECT_EQ(losses_of(folder_ / "two"), losses_of(folder_ / "one"));
      EXPECT_EQ(read_bytes(adapter("two")), read_bytes(adapter("one")));
      EXPECT_EQ(read_bytes(weights("two")), read_bytes(weights("one")));
    }
  }
}

TEST_F(TrainAdapters, ChangeTheirLayersAlone) {
  make_base();
  train("run", from_base() + "--steps 4 --lora 2 --lr 0.01 --lora-targets attn.c_proj --export");
  const TensorBytes base = tensors_of(weights("base")), merged = tensors_of(weights("run"));
  ASSERT_EQ(base.size(), merged.size());
  for (const auto& [name, bytes] : base) {
    EXPECT_EQ(merged.at(name) != bytes, name.ends_with("attn.c_proj.weight")) << name;
  }
  const TensorBytes adapters = tensors_of(adapter("run"));
  EXPECT_EQ(adapters.size(), 4u);  // A and B in two layers
  EXPECT_TRUE(adapters.contains("base_model.model.transformer.h.1.attn.c_proj.lora_B.weight"));
  const json config = json::parse(read_bytes(folder_ / "run/adapter/adapter_config.json"));
  EXPECT_EQ(config["r"], 2);
  EXPECT_EQ(config["lora_alpha"], 4);
  EXPECT_EQ(config["target_modules"], json({"attn.c_proj"}));
  EXPECT_EQ(config["base_model_name_or_path"], folder_ / "base/model");
}

TEST_F(TrainAdapters, BeginAsTheBase) {
  make_base();
  const std::string arguments = "--text " + text_ + " " + from_base();
  const json base = evaluated(arguments);
  EXPECT_EQ(evaluated(arguments + "--lora 4"), base);
  EXPECT_GT(base["tokens"], 0);
}

TEST_F(TrainAdapters, HoldStateOfTheirOwnParametersAlone) {
  train("run", "--steps 2 --lora 4");
  // In two layers A of 4 x 16 and B of 48 x 4, of each of which AdamW keeps two numbers.
  constexpr int64_t kNumel = 2 * (4 * 16 + 48 * 4);
  const json memory = metrics_of(folder_ / "run").back()["memory"];
  EXPECT_EQ(memory["optimizer"], 2 * 4 * kNumel);
  const json all = [&] {
    train("all", "--steps 2");
    return metrics_of(folder_ / "all").back()["memory"];
  }();
  EXPECT_GT(all["optimizer"], 20 * memory["optimizer"].get<int64_t>());
}

TEST_F(TrainAdapters, GoOnWithTheSameBits) {
  const std::string job = "--ranks 2 --lora 4 --lora-dropout 0.1 --schedule constant --export ";
  train("whole", job + "--steps 6");
  train("parts", job + "--steps 3");
  train("parts", job + "--steps 6");
  EXPECT_EQ(losses_of(folder_ / "parts"), losses_of(folder_ / "whole"));
  EXPECT_EQ(read_bytes(adapter("parts")), read_bytes(adapter("whole")));
  const Ending other = tiny("parts", "--ranks 2 --lora 2 --lora-dropout 0.1 --schedule constant --export --steps 8");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, AllOf(HasSubstr("is of another run"), ContainsRegex("--lora +4 +2\n")));
}

TEST_F(TrainAdapters, BeginOnACheckpointThatHasNone) {
  train("base", "--steps 3");
  const std::string job = "--ranks 2 --lora 4 --export --steps 5 --checkpoint " + (folder_ / "base/step-3");
  const Ending strict = tiny("run", job);
  EXPECT_EQ(strict.code, 2);
  EXPECT_THAT(strict.output,
              AllOf(HasSubstr("lora_A.weight is missing"), HasSubstr("load the matching part with --no-strict")));
  const Ending lenient = tiny("run", job + " --no-strict");
  EXPECT_EQ(lenient.code, 0) << lenient.output;
  EXPECT_THAT(lenient.output, HasSubstr("begin anew: transformer.h.0.attn.c_attn.lora_A.weight"));
  EXPECT_THAT(lenient.output, HasSubstr("goes on from"));
}

TEST_F(TrainAdapters, AVocabularyThatHasGrownKeepsItsRows) {
  make_base();
  const std::string job = from_base() + "--steps 2 --vocabulary 300";
  const Ending strict = tiny("run", job);
  EXPECT_EQ(strict.code, 2);
  EXPECT_THAT(strict.output, AllOf(HasSubstr("has shape [256, 16], expected [300, 16]"), HasSubstr("--no-strict")));
  const Ending lenient = tiny("run", job + " --no-strict");
  EXPECT_EQ(lenient.code, 0) << lenient.output;
  EXPECT_THAT(lenient.output, HasSubstr("only the first rows of "));
}

TEST_F(TrainAdapters, AreSampledAndEvaluated) {
  train("run", "--steps 6 --lora 4 --lr 0.01 --validation-windows 1000");
  EXPECT_EQ(run_train("sample --sample-length 5 --checkpoint " + (folder_ / "run/step-6")).code, 0);
  const json found = evaluated("--validation-windows 1000 --checkpoint " + (folder_ / "run/step-6"));
  EXPECT_EQ(found["validation_loss"], metrics_of(folder_ / "run").back()["validation_loss"]);
}

TEST_F(TrainAdapters, AreReadByPeftAndTransformers) {
  if (std::string(FSDP_PYTHON).empty()) FSDP_SKIP_TEST("there is no Python");
  for (const char* model : {"gpt2-tiny", "llama-tiny --key-value-heads 1"}) {
    SCOPED_TRACE(model);
    for (const char* run : {"base", "run"}) fs::remove_all(folder_ / run);
    make_base(std::string("--model ") + model);
    train("run", from_base() + "--steps 20 --lora 4 --lora-targets all --lr 0.03 --export");
    constexpr int kSkipped = 77;
    const Ending ending = run_command(FSDP_PYTHON " " FSDP_CHECK_ADAPTER " " + (folder_ / "base/model") + " " +
                                      (folder_ / "run/adapter") + " " + (folder_ / "run/model"));
    if (ending.code == kSkipped) FSDP_SKIP_TEST("Python has no peft or no transformers");
    EXPECT_EQ(ending.code, 0) << ending.output;
  }
}

TEST_F(TrainAdapters, WhatIsFrozenStaysAsItIs) {
  make_base();
  const std::string job =
      from_base() + "--steps 3 --lr 0.01 --export --freeze 'transformer.wte,transformer.h.0,*.ln_?.*' ";
  train("run", job + "--micro-batches 2");
  const TensorBytes before = tensors_of(weights("base")), after = tensors_of(weights("run"));
  for (const auto& [name, bytes] : before) {
    const bool is_frozen = name.starts_with("transformer.wte") || name.starts_with("transformer.h.0.") ||
                           name.find(".ln_") != std::string::npos;
    EXPECT_EQ(after.at(name) == bytes, is_frozen) << name;
  }
  for (const char* strategy : {"full-shard", "no-shard --optimizer adamw"}) {
    fs::remove_all(folder_ / "two");
    train("two", job + "--ranks 2 --strategy " + strategy);
    EXPECT_EQ(losses_of(folder_ / "two"), losses_of(folder_ / "run"));
    EXPECT_EQ(read_bytes(weights("two")), read_bytes(weights("run")));
  }
  train("muon", job + "--ranks 2 --optimizer muon");
}

TEST_F(TrainAdapters, SayWhatIsWrong) {
  const auto output = [&](const std::string& more) {
    const Ending ending = tiny("run", more);
    EXPECT_EQ(ending.code, 2);
    return ending.output;
  };
  EXPECT_THAT(output("--freeze transformer.h.0.atn,*.mlp.* --lora-alpha 3"),
              AllOf(HasSubstr("'transformer.h.0.atn' matches no parameter of the model; did you mean "
                              "transformer.h.0.attn?"),
                    HasSubstr("--lora-alpha is given without --lora")));
  EXPECT_THAT(output("--freeze '*'"), HasSubstr("leaves no parameter to train"));
  EXPECT_THAT(
      output("--lora 2 --lora-targets c_atn"),
      HasSubstr("'c_atn' is no linear layer of the blocks, which have c_attn, c_fc, c_proj; did you mean c_attn?"));
  EXPECT_THAT(output("--lora 0"), HasSubstr("--lora is 0; it must be"));
}

TEST_F(TrainAdapters, AreShownWithTheSettings) {
  const Ending ending = tiny("run", "--steps 1 --lora 4 --lora-targets c_fc");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("640 of the parameters (5.5 %): adapters of rank 4, alpha 8, at"));
}

}  // namespace
