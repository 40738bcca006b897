// The head of a language model: logits = features @ weight^T, with weight [vocabulary, width].
#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "models/division.h"
#include "models/model_config.h"

namespace models {

// A module with the parameter "weight". If it is divided, the weight has this rank's rows, as ParallelEmbedding's. The
// first values are torch::nn::Linear's.
std::shared_ptr<torch::nn::Module> make_head(const ModelConfig& config, const Division& division);
// As above, without values: for a copy of the token embedding.
std::shared_ptr<torch::nn::Module> make_tied_head(const ModelConfig& config, const Division& division);

// The parameter "weight" of a head or an embedding.
torch::Tensor head_weight(const torch::nn::Module& head);

// The mean cross entropy of targets [batch, length], for features [batch, length, width].
torch::Tensor head_loss(const torch::Tensor& features, const torch::Tensor& weight, const torch::Tensor& targets,
                        const Division& division);
// Logits [..., vocabulary] of features [..., width]. If the head is divided: of all ranks, and without gradients.
torch::Tensor head_logits(const torch::Tensor& features, const torch::Tensor& weight, const ModelConfig& config,
                          const Division& division);

}  // namespace models
