#include "models/published_sizes.h"

namespace models {

namespace {

struct Shape {
  const char* name;
  int64_t width, layers, heads;
};

// OpenAI's GPT-2, https://huggingface.co/openai-community/gpt2 and beside it; and models of its blocks and vocabulary.
ModelConfig gpt2(const Shape& shape, int64_t context) {
  constexpr int64_t kEndOfText = 50'256;  // separates documents, so each begins with it too
  return {.vocabulary = 50'257,
          .context = context,
          .width = shape.width,
          .layers = shape.layers,
          .heads = shape.heads,
          .begin_token = kEndOfText,
          .end_tokens = {kEndOfText}};
}

constexpr Shape kGpt2[] = {
    {"gpt2", 768, 12, 12}, {"gpt2-medium", 1024, 24, 16}, {"gpt2-large", 1280, 36, 20}, {"gpt2-xl", 1600, 48, 25}};

// Brown et al., 2020, "Language Models are Few-Shot Learners", https://arxiv.org/abs/2005.14165, Table 2.1, as GPT-2s
// whose attention is dense in each layer. The table's 24 heads of 128 do not make the 1.3B's width of 2048; 16 do. Its
// 40 heads of 128 make 5120 for the 13B, where the table has 5140.
constexpr Shape kGpt3[] = {{"gpt3-125m", 768, 12, 12},  {"gpt3-350m", 1024, 24, 16},  {"gpt3-760m", 1536, 24, 16},
                           {"gpt3-1.3b", 2048, 24, 16}, {"gpt3-2.7b", 2560, 32, 32},  {"gpt3-6.7b", 4096, 32, 32},
                           {"gpt3-13b", 5120, 40, 40},  {"gpt3-175b", 12'288, 96, 96}};

// Microsoft, 2020, "Turing-NLG: A 17-billion-parameter language model", with the vocabulary of GPT-2.
constexpr Shape kTuring = {"turing-nlg-17b", 4256, 78, 28};

struct LlamaShape {
  int64_t width, layers, heads, key_value_heads, mlp_width;
};

ModelConfig llama(const LlamaShape& shape, int64_t vocabulary, int64_t context, double rope_theta) {
  ModelConfig config{.family = Family::Llama,
                     .vocabulary = vocabulary,
                     .context = context,
                     .width = shape.width,
                     .layers = shape.layers,
                     .heads = shape.heads,
                     .rope_theta = rope_theta,
                     .tied_embeddings = false,
                     .begin_token = 1,
                     .end_tokens = {2}};
  if (shape.key_value_heads != config.key_value_heads_or_default()) config.key_value_heads = shape.key_value_heads;
  if (shape.mlp_width != config.mlp_width_or_default()) config.mlp_width = shape.mlp_width;
  return config;
}

// Touvron et al., 2023, https://arxiv.org/abs/2307.09288, and https://huggingface.co/meta-llama/Llama-2-7b-hf and
// beside it. The 34B has the shape of https://huggingface.co/codellama/CodeLlama-34b-hf, which was trained from it.
ModelConfig llama2(const LlamaShape& shape) { return llama(shape, 32'000, 4096, 10'000); }

// https://arxiv.org/abs/2407.21783, Table 3, and https://huggingface.co/meta-llama/Meta-Llama-3-8B and beside it.
ModelConfig llama3(const LlamaShape& shape) {
  ModelConfig config = llama(shape, 128'256, 8192, 500'000);
  config.begin_token = 128'000;
  config.end_tokens = {128'001};
  return config;
}

// https://huggingface.co/meta-llama/Llama-3.1-8B and beside it: they see further than Llama 3.
ModelConfig llama31(const LlamaShape& shape) {
  ModelConfig config = llama3(shape);
  config.context = 131'072;
  config.rope_scaling = RopeScaling{.factor = 8};
  return config;
}

// https://huggingface.co/meta-llama/Llama-3.2-1B and Llama-3.2-3B.
ModelConfig llama32(const LlamaShape& shape) {
  ModelConfig config = llama31(shape);
  config.rope_scaling = RopeScaling{.factor = 32};
  config.tied_embeddings = true;
  return config;
}

// https://huggingface.co/mistralai/Mistral-7B-v0.3: a Llama, without a sliding window since its second version.
ModelConfig mistral_7b() { return llama({4096, 32, 32, 8, 14'336}, 32'768, 32'768, 1e6); }

// Devlin et al., 2018, and https://huggingface.co/google-bert/bert-large-uncased and beside it.
ModelConfig bert(int64_t width, int64_t layers, int64_t heads) {
  return {.family = Family::Bert,
          .vocabulary = 30'522,
          .context = 512,
          .width = width,
          .layers = layers,
          .heads = heads,
          .norm_epsilon = 1e-12};
}

}  // namespace

std::vector<NamedSize> published_sizes() {
  std::vector<NamedSize> sizes;
  for (const Shape& shape : kGpt2) sizes.push_back({shape.name, gpt2(shape, 1024)});
  for (const Shape& shape : kGpt3) sizes.push_back({shape.name, gpt2(shape, 2048)});
  sizes.push_back({kTuring.name, gpt2(kTuring, 1024)});
  sizes.push_back({"llama2-7b", llama2({4096, 32, 32, 32, 11'008})});
  sizes.push_back({"llama2-13b", llama2({5120, 40, 40, 40, 13'824})});
  sizes.push_back({"llama2-34b", llama2({8192, 48, 64, 8, 22'016})});
  sizes.push_back({"llama2-70b", llama2({8192, 80, 64, 8, 28'672})});
  sizes.push_back({"llama3-8b", llama3({4096, 32, 32, 8, 14'336})});
  sizes.push_back({"llama3-70b", llama3({8192, 80, 64, 8, 28'672})});
  sizes.push_back({"llama3.1-8b", llama31({4096, 32, 32, 8, 14'336})});
  sizes.push_back({"llama3.1-70b", llama31({8192, 80, 64, 8, 28'672})});
  sizes.push_back({"llama3.1-405b", llama31({16'384, 126, 128, 8, 53'248})});
  sizes.push_back({"llama3.2-1b", llama32({2048, 16, 32, 8, 8192})});
  sizes.push_back({"llama3.2-3b", llama32({3072, 28, 24, 8, 8192})});
  sizes.push_back({"mistral-7b", mistral_7b()});
  sizes.push_back({"bert-base", bert(768, 12, 12)});
  sizes.push_back({"bert-large", bert(1024, 24, 16)});
  return sizes;
}

}  // namespace models
