#include "fsdp/sync_batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/batchnorm.h>

#include "base/error.h"

namespace fsdp {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;

// All dimensions but that of the features.
std::vector<int64_t> reduced_dims(const Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// One number per feature, to be used with `input`.
Tensor spread(const Tensor& features, const Tensor& input) {
  std::vector<int64_t> sizes(static_cast<size_t>(input.dim()), 1);
  sizes[1] = -1;
  return features.to(input.scalar_type()).view(sizes);
}

// Moments of all ranks' values; [features] in double, because a sum of few partial sums costs nothing.
struct Moments {
  double count = 0;
  Tensor mean, squares;  // the sum of squared deviations from the mean
};

// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
Moments combine(const std::vector<Tensor>& of_ranks) {
  Moments all{.mean = torch::zeros_like(of_ranks[0][1]), .squares = torch::zeros_like(of_ranks[0][1])};
  for (const Tensor& one : of_ranks) all.count += one[0][0].item<double>();
  for (const Tensor& one : of_ranks) all.mean += one[1] * (one[0] / all.count);
  for (const Tensor& one : of_ranks) all.squares += one[2] + one[0] * (one[1] - all.mean).square();
  return all;
}

Moments moments_of(const Tensor& input, World& world) {
  const torch::NoGradGuard no_grad;
  const int64_t count = input.numel() / input.size(1);
  Tensor own = torch::zeros({3, input.size(1)}, input.options().dtype(torch::kFloat64));  // count, mean, squares
  if (count > 0) {
    const auto [variance, mean] = torch::var_mean(input, reduced_dims(input), /*correction=*/0);
    own[0].fill_(static_cast<double>(count));
    own[1].copy_(mean);
    own[2].copy_(variance).mul_(static_cast<double>(count));
  }
  return combine(world.all_gather(own));
}

// input -> (input - mean) / sqrt(variance + eps), where mean and variance are functions of every rank's input.
struct Normalize : torch::autograd::Function<Normalize> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Moments& moments, double eps,
                        World world) {
    const Tensor deviation = (moments.squares / moments.count + eps).rsqrt();
    const Tensor normalized = (input - spread(moments.mean, input)).mul_(spread(deviation, input));
    context->save_for_backward({normalized, deviation});
    context->saved_data["count"] = moments.count;
    context->saved_data["world"] = torch::IValue::make_capsule(c10::make_intrusive<Holder>(std::move(world)));
    return normalized;
  }

  // A rank's input moves the statistics of all: what flows back through them is summed over the ranks.
  static torch::autograd::tensor_list backward(AutogradContext* context, torch::autograd::tensor_list gradients) {
    FSDP_CHECK(!torch::GradMode::is_enabled(),
               "SyncBatchNorm: found a backward with create_graph, expected one without: it has no second derivative. "
               "Use torch::nn::BatchNorm, or evaluation mode.");
    const auto saved = context->get_saved_variables();
    const Tensor &gradient = gradients[0], &normalized = saved[0], &deviation = saved[1];
    const double count = context->saved_data["count"].toDouble();
    const auto dims = reduced_dims(gradient);
    Tensor sums = torch::stack({gradient.sum(dims), (gradient * normalized).sum(dims)}).to(torch::kFloat64);
    auto holder = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["world"].toCapsule());
    holder->world.all_reduce_(sums);
    Tensor result = normalized * spread(sums[1] / -count, gradient);
    result.add_(gradient).sub_(spread(sums[0] / count, gradient)).mul_(spread(deviation, gradient));
    return {result, {}, {}, {}};
  }

  struct Holder : torch::CustomClassHolder {
    explicit Holder(World one) : world(std::move(one)) {}
    World world;
  };
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, World world)
    : NormImplBase(options), world_(std::move(world)) {}

void SyncBatchNormImpl::_check_input_dim(const Tensor& input) {
  FSDP_CHECK(input.dim() >= 2 && input.size(1) == options.num_features() && input.is_floating_point(),
             "SyncBatchNorm: found a {} input of shape [{}], expected [batch, {}, ...] in a floating dtype",
             toString(input.scalar_type()), fmt::join(input.sizes(), ", "), options.num_features());
}

Tensor SyncBatchNormImpl::forward(const Tensor& input) {
  _check_input_dim(input);
  if (is_training()) return normalize(input);
  // Without running statistics evaluation uses those of its batch, as BatchNorm does.
  return torch::batch_norm(input, weight, bias, running_mean, running_var, !running_mean.defined(),
                           options.momentum().value_or(0.0), options.eps(), /*cudnn_enabled=*/false);
}

Tensor SyncBatchNormImpl::normalize(const Tensor& input) {
  // Sums of 16-bit values want more than 16 bits.
  const Tensor values = input.scalar_type() == torch::kFloat64 ? input : input.to(torch::kFloat32);
  const Moments moments = moments_of(values, world_);
  FSDP_CHECK(moments.count > 1, "SyncBatchNorm: found {} values of a feature on all ranks, expected 2 or more to train",
             moments.count);
  if (running_mean.defined()) {
    const torch::NoGradGuard no_grad;
    num_batches_tracked.add_(1);
    const double share = options.momentum().value_or(1.0 / static_cast<double>(num_batches_tracked.item<int64_t>()));
    running_mean.mul_(1 - share).add_(moments.mean.to(running_mean.scalar_type()), share);
    running_var.mul_(1 - share).add_((moments.squares / (moments.count - 1)).to(running_var.scalar_type()), share);
  }
  Tensor result = Normalize::apply(values, moments, options.eps(), world_);
  // Outside of Normalize: a sharded parameter is used where the gradient mode is the caller's.
  if (weight.defined()) result = torch::addcmul(spread(bias, result), result, spread(weight, result));
  return result.to(input.scalar_type());
}

}  // namespace fsdp
