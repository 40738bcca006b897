#include "training/step_code.h"

#include <algorithm>

#include "models/language_model.h"
#include "planning/generator_kept.h"
#include "planning/one_thread.h"
#include "run/sharding.h"

namespace trainer {

namespace {

// With the operators of the model: its family, dropout, adapters and biases.
models::ModelConfig tiny_model(const models::ModelConfig& model) {
  constexpr int64_t kLayers = 4, kHeads = 2, kHeadWidth = 16, kTokens = 32;
  models::ModelConfig tiny = model;
  tiny.vocabulary = tiny.context = kTokens;
  tiny.width = kHeads * kHeadWidth;
  tiny.layers = std::min(model.layers, kLayers);
  tiny.heads = kHeads;
  if (model.key_value_heads) tiny.key_value_heads = *model.key_value_heads < model.heads ? 1 : kHeads;
  tiny.head_width.reset();
  tiny.mlp_width.reset();
  tiny.begin_token.reset();  // they may be beyond the vocabulary
  tiny.end_tokens.clear();
  return tiny;
}

}  // namespace

void load_code_of_steps(const RunOptions& options) {
  const GeneratorKept generator;
  const OneThread one_thread;
  const auto model = models::make_model(tiny_model(options.model));
  model->set_recomputation(options.recomputation());
  model->to(compute_dtype_of(options));
  const torch::Tensor tokens = torch::zeros({2, model->config().context}, torch::kInt64);
  model->loss(tokens, tokens.clone()).backward();
}

}  // namespace trainer
