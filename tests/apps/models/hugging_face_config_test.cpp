#include "models/hugging_face_config.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "models/model_sizes.h"
#include "support/temporary_folder.h"

namespace models {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

ConfigFile parse(const json& config) { return parse_hugging_face_config(config.dump()); }

ConfigFile llama_with(const json& more) {
  json config = {{"model_type", "llama"}};
  config.update(more);
  return parse(config);
}

std::vector<std::string> gpt2_problems(const json& more) {
  json config = {{"model_type", "gpt2"}};
  config.update(more);
  return parse(config).problems;
}

TEST(HuggingFaceConfig, EveryNamedSizeComesBack) {
  for (const std::string& name : planned_names()) {
    const ConfigFile file = parse_hugging_face_config(hugging_face_config(*config_of_size(name)));
    EXPECT_THAT(file.problems, IsEmpty()) << name;
    EXPECT_EQ(file.config, *config_of_size(name)) << name;
  }
}

TEST(HuggingFaceConfig, EveryFieldComesBack) {
  const ModelConfig gpt2{.vocabulary = 99,
                         .context = 33,
                         .width = 24,
                         .layers = 5,
                         .heads = 3,
                         .mlp_width = 55,
                         .norm_epsilon = 1e-3,
                         .tied_embeddings = false,
                         .initializer_range = 0.03,
                         .embedding_dropout = 0.1,
                         .attention_dropout = 0.2,
                         .residual_dropout = 0.3,
                         .begin_token = 1,
                         .end_tokens = {2, 3}};
  EXPECT_EQ(parse_hugging_face_config(hugging_face_config(gpt2)).config, gpt2);
  const ModelConfig llama{
      .family = Family::Llama,
      .vocabulary = 99,
      .context = 33,
      .width = 24,
      .layers = 5,
      .heads = 6,
      .key_value_heads = 3,
      .head_width = 10,
      .mlp_width = 55,
      .norm_epsilon = 1e-3,
      .rope_theta = 123.5,
      .rope_scaling =
          RopeScaling{.factor = 3, .low_frequency_factor = 0.5, .high_frequency_factor = 2.5, .original_context = 17},
      .tied_embeddings = true,
      .attention_bias = true,
      .mlp_bias = true,
      .initializer_range = 0.03,
      .attention_dropout = 0.2,
      .end_tokens = {7}};
  EXPECT_EQ(parse_hugging_face_config(hugging_face_config(llama)).config, llama);
}

// As at https://huggingface.co/openai-community/gpt2, without what says nothing about the model.
TEST(HuggingFaceConfig, ThePublishedGpt2IsRead) {
  const ConfigFile file = parse_hugging_face_config(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index", "vocab_size": 50257})");
  EXPECT_THAT(file.problems, IsEmpty());
  ModelConfig expected = *config_of_size("gpt2");
  expected.embedding_dropout = expected.attention_dropout = expected.residual_dropout = 0.1;
  EXPECT_EQ(file.config, expected);
}

// As at https://huggingface.co/meta-llama/Llama-3.2-1B, in the form of its time.
TEST(HuggingFaceConfig, ThePublishedLlamaIsRead) {
  const ConfigFile file = parse_hugging_face_config(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
    "vocab_size": 128256})");
  EXPECT_THAT(file.problems, IsEmpty());
  EXPECT_EQ(file.config, *config_of_size("llama-1b"));
}

TEST(HuggingFaceConfig, WhatIsAbsentOrNullHasTransformersValue) {
  const ConfigFile gpt2 = parse({{"model_type", "gpt2"}, {"n_inner", nullptr}, {"n_embd", nullptr}});
  EXPECT_THAT(gpt2.problems, IsEmpty());
  EXPECT_EQ(gpt2.config.width, 768);
  EXPECT_EQ(gpt2.config.residual_dropout, 0.1);
  EXPECT_TRUE(gpt2.config.tied_embeddings);
  const ConfigFile llama = llama_with({{"head_dim", nullptr}, {"rope_scaling", nullptr}});
  EXPECT_THAT(llama.problems, IsEmpty());
  EXPECT_EQ(llama.config.mlp_width_or_default(), 11'008);
  EXPECT_EQ(llama.config.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.config.rope_theta, 10'000);
  EXPECT_FALSE(llama.config.tied_embeddings);
}

TEST(HuggingFaceConfig, BothFormsOfTheRotaryEmbeddingAreRead) {
  const json scaling = {{"factor", 4}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  json newer = scaling, older = scaling, oldest = scaling;
  newer.update({{"rope_type", "llama3"}, {"rope_theta", 5e5}});
  older["rope_type"] = "llama3";
  oldest["type"] = "llama3";
  const ModelConfig expected = llama_with({{"rope_parameters", newer}}).config;
  EXPECT_EQ(expected.rope_theta, 5e5);
  // The original context, if not given, is the context.
  EXPECT_EQ(expected.rope_scaling, (RopeScaling{.factor = 4, .original_context = 2048}));
  for (const json& form :
       {json{{"rope_scaling", older}, {"rope_theta", 5e5}}, json{{"rope_scaling", oldest}, {"rope_theta", 5e5}},
        json{{"rope_scaling", older}, {"rope_theta", 5e5}, {"rope_parameters", newer}}}) {
    EXPECT_THAT(llama_with(form).problems, IsEmpty()) << form;
    EXPECT_EQ(llama_with(form).config, expected) << form;
  }
}

TEST(HuggingFaceConfig, TwoFormsThatDisagreeAreAProblem) {
  const json llama3 = {{"rope_type", "llama3"}, {"factor", 4}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  EXPECT_THAT(llama_with({{"rope_parameters", {{"rope_type", "default"}}}, {"rope_scaling", llama3}}).problems,
              ElementsAre("rope_parameters and rope_scaling differ; keep one of them."));
  EXPECT_THAT(llama_with({{"rope_parameters", {{"rope_theta", 5e5}}}, {"rope_theta", 1e4}}).problems,
              ElementsAre("rope_theta is 10000, and 500000 beside the rope_type; keep one of them."));
}

TEST(HuggingFaceConfig, OtherModelsAreRefused) {
  EXPECT_THAT(parse({{"model_type", "mistral"}}).problems,
              ElementsAre("model_type is \"mistral\"; accepted: \"gpt2\", \"llama\", \"bert\"."));
  EXPECT_THAT(parse(json::object()).problems,
              ElementsAre("model_type is missing; accepted: \"gpt2\", \"llama\", \"bert\"."));
}

// As https://huggingface.co/google-bert/bert-large-uncased has it.
TEST(HuggingFaceConfig, ReadsABert) {
  const ConfigFile file = parse({{"architectures", {"BertForMaskedLM"}},
                                 {"attention_probs_dropout_prob", 0.1},
                                 {"hidden_act", "gelu"},
                                 {"hidden_dropout_prob", 0.1},
                                 {"hidden_size", 1024},
                                 {"initializer_range", 0.02},
                                 {"intermediate_size", 4096},
                                 {"layer_norm_eps", 1e-12},
                                 {"max_position_embeddings", 512},
                                 {"model_type", "bert"},
                                 {"num_attention_heads", 16},
                                 {"num_hidden_layers", 24},
                                 {"pad_token_id", 0},
                                 {"position_embedding_type", "absolute"},
                                 {"type_vocab_size", 2},
                                 {"vocab_size", 30522}});
  EXPECT_THAT(file.problems, IsEmpty());
  ModelConfig expected = *config_of_size("bert-large");
  expected.embedding_dropout = expected.attention_dropout = expected.residual_dropout = 0.1;
  EXPECT_EQ(file.config, expected);
  EXPECT_EQ(parse({{"model_type", "bert"}}).config.layers, 12);  // bert-base's, as transformers has it
  EXPECT_THAT(
      parse({{"model_type", "bert"}, {"type_vocab_size", 16}, {"is_decoder", true}}).problems,
      UnorderedElementsAre("type_vocab_size is 16; accepted: none, 2.", "is_decoder is true; accepted: none, false."));
}

TEST(HuggingFaceConfig, WhatGpt2CannotDoIsNamed) {
  EXPECT_THAT(
      gpt2_problems({{"activation_function", "relu"},
                     {"scale_attn_weights", false},
                     {"scale_attn_by_inverse_layer_idx", true},
                     {"reorder_and_upcast_attn", true},
                     {"add_cross_attention", true},
                     {"quantization_config", {{"bits", 4}}}}),
      UnorderedElementsAre("activation_function is \"relu\"; accepted: none, \"gelu_new\", \"gelu_pytorch_tanh\".",
                           "scale_attn_weights is false; accepted: none, true.",
                           "scale_attn_by_inverse_layer_idx is true; accepted: none, false.",
                           "reorder_and_upcast_attn is true; accepted: none, false.",
                           "add_cross_attention is true; accepted: none, false.",
                           "quantization_config is {\"bits\":4}; accepted: none."));
}

TEST(HuggingFaceConfig, WhatLlamaCannotDoIsNamed) {
  EXPECT_THAT(llama_with({{"hidden_act", "gelu"},
                          {"partial_rotary_factor", 0.5},
                          {"sliding_window", 4096},
                          {"use_sliding_window", true}})
                  .problems,
              UnorderedElementsAre("hidden_act is \"gelu\"; accepted: none, \"silu\", \"swish\".",
                                   "partial_rotary_factor is 0.5; accepted: none, 1.",
                                   "sliding_window is 4096; accepted: none.",
                                   "use_sliding_window is true; accepted: none, false."));
}

TEST(HuggingFaceConfig, OtherRotaryEmbeddingsAreNamed) {
  EXPECT_THAT(llama_with({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}).problems,
              ElementsAre("rope_scaling.type is \"linear\"; accepted: none, \"default\", \"llama3\"."));
  EXPECT_THAT(llama_with({{"rope_parameters", {{"rope_type", "yarn"}, {"beta_fast", 32}}}}).problems,
              UnorderedElementsAre("rope_parameters.rope_type is \"yarn\"; accepted: none, \"default\", \"llama3\".",
                                   HasSubstr("rope_parameters.beta_fast is unknown; accepted: rope_type,")));
  EXPECT_THAT(llama_with({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}).problems,
              ElementsAre(HasSubstr("rope_parameters.full_attention is unknown")));
  EXPECT_THAT(
      llama_with({{"rope_parameters", {{"rope_type", "llama3"}, {"factor", "x"}, {"low_freq_factor", 1}}}}).problems,
      UnorderedElementsAre("rope_parameters.factor is \"x\"; it must be a number.",
                           "rope_parameters.high_freq_factor is missing; llama3 needs a number."));
  EXPECT_THAT(llama_with({{"rope_scaling", 2}}).problems, ElementsAre("rope_scaling is 2; it must be an object."));
}

TEST(HuggingFaceConfig, ValuesOfAnotherKindAreAllNamed) {
  EXPECT_THAT(
      gpt2_problems({{"n_layer", 1.5},
                     {"n_head", "12"},
                     {"n_embd", 18446744073709551615u},
                     {"layer_norm_epsilon", "small"},
                     {"tie_word_embeddings", 1},
                     {"eos_token_id", {1, "2"}}}),
      UnorderedElementsAre("n_layer is 1.5; it must be a whole number.", "n_head is \"12\"; it must be a whole number.",
                           "n_embd is 18446744073709551615; it must be a whole number.",
                           "layer_norm_epsilon is \"small\"; it must be a number.",
                           "tie_word_embeddings is 1; it must be true or false.",
                           "eos_token_id is [1,\"2\"]; it must be a whole number, or a list of them."));
}

TEST(HuggingFaceConfig, AModelThatCannotBeBuiltIsAProblem) {
  EXPECT_THAT(
      gpt2_problems({{"n_embd", 10}, {"n_head", 3}, {"vocab_size", -1}}),
      UnorderedElementsAre("width 10 is not a multiple of heads 3.", "vocabulary is -1; it must be at least 1."));
}

TEST(HuggingFaceConfig, TextThatIsNoConfigIsAProblem) {
  for (const char* text : {"", "{", "{\"model_type\": \"gpt2\"} more", "{\"a\": \"\xff\"}"}) {
    EXPECT_THAT(parse_hugging_face_config(text).problems, ElementsAre(HasSubstr("is damaged: "))) << text;
  }
  for (const char* text : {"[]", "null", "7"}) {
    EXPECT_THAT(parse_hugging_face_config(text).problems, ElementsAre("is not a JSON object.")) << text;
  }
}

TEST(HuggingFaceConfig, DeepNestingIsAProblem) {
  for (const std::string& begin : {std::string("["), std::string("{\"a\":")}) {
    std::string text = R"({"model_type": "gpt2", "a": )";
    for (int i = 0; i < 200'000; ++i) text += begin;
    EXPECT_THAT(parse_hugging_face_config(text).problems, ElementsAre(HasSubstr("nest deeper than 64 levels")));
  }
}

TEST(HuggingFaceConfig, NumbersThatCannotBeAreProblems) {
  for (const char* size : {"1e400", "-1", "0", "9223372036854775808", "18446744073709551615", "9223372036854775807",
                           "\"64\"", "64.5", "1e3", "true", "[64]", "NaN", "-1e400"}) {
    for (const char* key : {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "n_inner"}) {
      const std::string text = std::string(R"({"model_type": "gpt2", ")") + key + "\": " + size + "}";
      EXPECT_THAT(parse_hugging_face_config(text).problems, ::testing::Not(IsEmpty())) << text;
    }
  }
  EXPECT_THAT(gpt2_problems({{"vocab_size", 9'000'000'000'000}, {"n_embd", 9'000'000'000'000}}), ::testing::SizeIs(2));
  EXPECT_THAT(gpt2_problems({{"bos_token_id", -7}}), ElementsAre("begin_token is -7; it must be at least 0."));
  EXPECT_THAT(gpt2_problems({{"eos_token_id", {1, uint64_t{1} << 63}}}), ElementsAre(HasSubstr("eos_token_id")));
  EXPECT_THAT(parse_hugging_face_config(R"({"model_type": "gpt2", "n_embd": 64, "n_embd": 128})").problems,
              ElementsAre(HasSubstr("names n_embd twice")));
}

TEST(HuggingFaceConfig, WhatIsShownOfAFileIsShortAndHarmless) {
  const std::vector<std::string> found =
      llama_with({{"rope_scaling", {{"\x1b[31m" + std::string(100'000, 'x'), 1}}}}).problems;
  ASSERT_THAT(found, ElementsAre(HasSubstr("rope_scaling.\\x1b[31mxxx")));
  EXPECT_LT(found[0].size(), 1000u);
}

TEST(HuggingFaceConfig, WhatIsNoFileIsAProblemAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink("loop", (folder / "loop").c_str()), 0);
  EXPECT_THAT(read_hugging_face_config(folder / "pipe").problems, ElementsAre(HasSubstr("is not a regular file")));
  EXPECT_THAT(read_hugging_face_config(folder / "loop").problems, ElementsAre(HasSubstr("Too many levels")));
  EXPECT_THAT(read_hugging_face_config("/dev/zero").problems, ElementsAre(HasSubstr("is not a regular file")));
}

TEST(HuggingFaceConfig, IsReadFromAFileOrItsFolder) {
  const TemporaryFolder folder;
  const std::string file = folder.write("config.json", hugging_face_config(*config_of_size("llama-tiny")));
  for (const std::string& path : {file, folder.path().string()}) {
    EXPECT_THAT(read_hugging_face_config(path).problems, IsEmpty());
    EXPECT_EQ(read_hugging_face_config(path).config, *config_of_size("llama-tiny"));
  }
}

TEST(HuggingFaceConfig, AFileThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_hugging_face_config(folder / "none.json").problems,
              ElementsAre(AllOf(HasSubstr(folder / "none.json"), HasSubstr("No such file"))));
  EXPECT_THAT(read_hugging_face_config(folder.path()).problems, ElementsAre(HasSubstr(folder / "config.json")));
  const std::string large = folder.write("model.safetensors", "");
  std::filesystem::resize_file(large, (16u << 20) + 1);
  EXPECT_THAT(read_hugging_face_config(large).problems, ElementsAre(HasSubstr("has 16777217 bytes")));
}

}  // namespace
}  // namespace models
