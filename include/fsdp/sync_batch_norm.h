// Batch normalisation with the statistics of all ranks' batches.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include "fsdp/world.h"

namespace fsdp {

// torch::nn::BatchNorm1d to 3d (Ioffe and Szegedy, https://arxiv.org/abs/1502.03167) whose mean and variance in
// training are those of the batches of all ranks of a world, as in torch.nn.SyncBatchNorm. Options, parameters, buffers
// and evaluation are BatchNorm's, and so are the names of its state.
//
// Statistics are combined in rank order: they and the running statistics are the same bits on every rank, and depend on
// the order of the ranks alone. Another number of ranks groups the sums otherwise, and rounds otherwise.
class SyncBatchNormImpl : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, World world);

  // `input` is [batch, num_features, ...] in a floating dtype; the result has its shape and dtype. In training this and
  // its backward are collectives of the world. Batches may differ in size between ranks, and be empty. Throws `Error`
  // for another shape, or when a feature has fewer than two values in all. Has no second derivative.
  torch::Tensor forward(const torch::Tensor& input);

 protected:
  void _check_input_dim(const torch::Tensor& input) override;

 private:
  torch::Tensor normalize(const torch::Tensor& input);

  World world_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace fsdp
