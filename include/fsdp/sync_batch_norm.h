// Batch normalisation with the statistics of all ranks' batches.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include "fsdp/world.h"

namespace fsdp {

// torch::nn::BatchNorm1d to 3d (Ioffe and Szegedy, https://arxiv.org/abs/1502.03167) with the mean and variance of all
// ranks' batches in training, as in torch.nn.SyncBatchNorm. Options, parameters, buffers, evaluation and names of the
// state are BatchNorm's.
//
// Statistics are combined in rank order, so all ranks have the same bits. Another number of ranks groups and rounds the
// sums differently.
class SyncBatchNormImpl : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  // `world`: the ranks whose batches count together.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, World world);

  // `input` is [batch, num_features, ...] in a floating dtype; the result has its shape and dtype. In training this and
  // its backward are collectives of the world. Batches may differ in size between ranks, and be empty. Throws `Error`
  // for another shape, or if a feature has fewer than two values over all ranks. It has no second derivative.
  torch::Tensor forward(const torch::Tensor& input);

 protected:
  // LibTorch calls it. `forward` checks the shape.
  void _check_input_dim(const torch::Tensor& input) override;

 private:
  torch::Tensor normalize(const torch::Tensor& input);

  World world_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace fsdp
