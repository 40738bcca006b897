// The layers that a model's blocks consist of: plain ones, or divided among ranks.
#pragma once

#include <fsdp/tensor_parallel.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/division.h"

namespace models {

// A layer's forward. It holds the layer's module.
using Layer = std::function<torch::Tensor(const torch::Tensor& x)>;

// Registers a linear layer in `parent`. [..., in] to [..., out], or to this rank's features of `blocks`
// (TensorParallelOptions::blocks).
Layer column_layer(torch::nn::Module& parent, const std::string& name, const torch::nn::LinearOptions& options,
                   const Division& division, std::vector<fsdp::FeatureBlock> blocks = {});
// The same, from [..., in], or this rank's features of it, to [..., out].
Layer row_layer(torch::nn::Module& parent, const std::string& name, const torch::nn::LinearOptions& options,
                const Division& division);
// A norm of x [batch, length, width]: `norm` of it and of the parameters. With sequence_parallel x is this rank's slice
// of the length, and the parameters' gradients are those of the whole.
using NormFunction = std::function<torch::Tensor(const torch::Tensor& x, const std::vector<torch::Tensor>& parameters)>;
torch::Tensor norm_of_slices(const torch::Tensor& x, const std::vector<torch::Tensor>& parameters,
                             const Division& division, const NormFunction& norm);
// The whole sequence of this rank's slice.
torch::Tensor whole_sequence(const torch::Tensor& x, const Division& division);

// An embedding [entries, width] of tokens.
std::shared_ptr<torch::nn::Module> make_embedding(int64_t entries, int64_t width, const Division& division);
// Its forward: tokens [batch, length] to [batch, length, width], or to this rank's slice of the length.
torch::Tensor embed(torch::nn::Module& embedding, const torch::Tensor& tokens);

}  // namespace models
