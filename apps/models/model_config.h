// The shape of a language model, and what follows from it alone; no LibTorch, so that a command line can be checked,
// and memory be computed, before anything starts threads or is built.
//
// Two families are trained: GPT-2 (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners") and
// Llama (Touvron et al., 2023, https://arxiv.org/abs/2302.13971; with grouped-query attention and scaled rotary
// embeddings as Llama 3, https://arxiv.org/abs/2407.21783). BERT (Devlin et al., 2018,
// https://arxiv.org/abs/1810.04805) is known for plans alone. Users of a config expect one without problems(), unless
// they say otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace models {

enum class Family { Gpt2, Llama, Bert };

// Llama 3.1's way to see further than it was trained to: frequencies of the rotary embedding whose wavelength is long
// are divided by `factor`, short ones stay, and those between are blended.
struct RopeScaling {
  double factor = 8;
  double low_frequency_factor = 1;   // wavelengths above original_context / this are long
  double high_frequency_factor = 4;  // and below original_context / this short
  int64_t original_context = 8192;   // tokens that the model was trained to see before
  bool operator==(const RopeScaling&) const = default;
};

// Low-rank adapters (Hu et al., 2021, https://arxiv.org/abs/2106.09685): beside W x, a linear layer of the blocks gives
// alpha / rank * B A x, with A [rank, in] and B [out, rank].
struct Lora {
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;                     // share of A's input that is set to 0 in training
  std::vector<std::string> targets = {};  // layers that have one, by the ends of their names: "q_proj", "mlp.c_proj"

  bool operator==(const Lora&) const = default;
  double scale() const { return alpha / static_cast<double>(rank); }
  bool is_for(const std::string& layer) const;  // by its whole name
};

struct ModelConfig {
  Family family = Family::Gpt2;
  int64_t vocabulary = 256;  // tokens that are told apart
  int64_t context = 128;     // tokens that a prediction may see
  int64_t width = 128;       // of the residual stream
  int64_t layers = 4;        // blocks
  int64_t heads = 4;         // that attend, in each layer
  std::optional<int64_t> key_value_heads =
      std::nullopt;  // Llama: each is shared by heads / key_value_heads heads; none: heads
  std::optional<int64_t> head_width = std::nullopt;  // Llama: even; none, and always in the others: width / heads
  std::optional<int64_t> mlp_width =
      std::nullopt;            // none: 4 x width, for Llama 8/3 x width rounded up to a multiple of 32
  double norm_epsilon = 1e-5;  // added to the variance by LayerNorm and RMSNorm
  double rope_theta = 10'000;  // Llama: base of the rotary embedding's wavelengths
  std::optional<RopeScaling> rope_scaling = std::nullopt;  // Llama
  bool tied_embeddings = true;                             // the head is the token embedding
  bool attention_bias = false;      // Llama: on all four projections. The others have every bias.
  bool mlp_bias = false;            // Llama: on all three projections
  double initializer_range = 0.02;  // deviation of the first weights
  // Shares of what is set to 0 in training.
  double embedding_dropout = 0;  // GPT-2 and BERT
  double attention_dropout = 0;  // of the attention's weights
  double residual_dropout = 0;   // GPT-2 and BERT: of what a layer adds
  // Special tokens of the vocabulary, if it has them.
  std::optional<int64_t> begin_token = std::nullopt;  // a text begins with it
  std::vector<int64_t> end_tokens = {};               // a text ends with one of them
  std::optional<Lora> lora = std::nullopt;

  bool operator==(const ModelConfig&) const = default;

  // Never divide by zero: these are asked of configs with problems, too.
  int64_t key_value_heads_or_default() const { return key_value_heads.value_or(heads); }
  int64_t head_width_or_default() const { return head_width.value_or(heads > 0 ? width / heads : 0); }
  int64_t mlp_width_or_default() const;
};

// "GPT-2", "Llama", "BERT".
const char* name_of(Family family);

// True for BERT: its memory and its time are planned, and make_model builds none.
bool is_for_plans_alone(Family family);

// Everything that is wrong with the config, a sentence each; none for one that can be built. Asks nothing of it.
std::vector<std::string> problems(const ModelConfig& config);

enum class ParameterKind {
  Embedding,  // [rows, width], looked up; a tied one is the head as well
  Matrix,     // [out, in], multiplies
  Norm,       // [width], scales
  Bias,       // [out], is added
};

// Entries along a parameter's dimension that tensor parallelism divides on their own, as fsdp::FeatureBlock: heads that
// stay whole. Where parts do not divide heads of 1 entry, the first parts have one more.
struct DividedHeads {
  int64_t heads = 0;
  int64_t head_size = 1;

  bool operator==(const DividedHeads&) const = default;
};

struct DividedDim {
  size_t dim = 0;
  std::vector<DividedHeads> blocks;  // one after the other

  bool operator==(const DividedDim&) const = default;
};

struct Parameter {
  std::string name;  // as in the model's named_parameters
  std::vector<int64_t> shape;
  ParameterKind kind;
  std::optional<DividedDim> divided = std::nullopt;  // by tensor parallelism; none: each rank has all of it
  int64_t numel() const;
};

struct Unit {
  std::string name;  // "root", or the block's
  std::vector<Parameter> parameters;
  int64_t numel() const;
};

// The parameters of make_model(config), or of Hugging Face's BertForPreTraining, divided as `fsdp::shard` does when
// each block is a unit: first "root", with what is no block's, then the blocks; in the order of
// ShardedModel::parameters.
std::vector<Unit> units(const ModelConfig& config);

// The names of the parameters of these kinds: patterns for an optimizer's groups.
std::vector<std::string> names_of(const ModelConfig& config, const std::vector<ParameterKind>& kinds);

// The names of the linear layers of the blocks, which may have adapters.
std::vector<std::string> linear_layers(const ModelConfig& config);

// True if a parameter is an adapter's.
bool is_adapter(const std::string& parameter);

// True for the matrix that follows a layer's attention.
bool follows_attention(const Parameter& parameter);

// Parameter elements; a tied head counts once.
int64_t parameter_numel(const ModelConfig& config);

// Floating-point operations per token of a sequence of `length` tokens, in forward and backward: 6 N + 12 L H Q T. N is
// the number of multiplying parameters (all except embeddings that are only looked up), with L layers, H heads of width
// Q and T tokens. Attention counts in full, though half of it is masked (PaLM, https://arxiv.org/abs/2204.02311,
// appendix B; nanoGPT does the same). Parameters in `frozen`, by name, get no gradient: 4 each instead of 6. If no
// earlier parameter is trained, it is 2, because the backward ends above them. Attention counts a third there. BERT's
// pooler and its head for the next sentence count as if every token passed them: 0.3 % of bert-large.
double flops_per_token(const ModelConfig& config, int64_t length, const std::set<std::string>& frozen = {});

}  // namespace models
