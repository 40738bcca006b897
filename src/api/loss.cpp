#include "fsdp/loss.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <cmath>
#include <utility>
#include <vector>

#include "api/tensor_parallel/matrices.h"
#include "api/tensor_parallel/parts.h"
#include "api/vocabulary_parts.h"
#include "base/error.h"
#include "interpose/composed_operator.h"

namespace fsdp {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fsdp::linear_cross_entropy";

// One call, for its backward. Logits are no saved tensors: the first backward uses them up, another makes its own.
struct LossCall : torch::CustomClassHolder {
  LossCall(const LinearCrossEntropyOptions& of, VocabularyParts division, KeptLogitsOfParts logits)
      : options(of), parts(std::move(division)), kept(std::move(logits)) {}
  LinearCrossEntropyOptions options;
  VocabularyParts parts;
  KeptLogitsOfParts kept;
};

int64_t chunk_bytes_on(const torch::Device& device, const LinearCrossEntropyOptions& options) {
  return device.is_cpu() ? options.chunk_bytes : options.gpu_chunk_bytes;
}

Tensor is_counted(const Tensor& targets, const LinearCrossEntropyOptions& options) {
  return targets != options.ignore_index;
}

// hidden [rows, width], weight, targets [rows] -> losses [rows]. With s for the share that is spread over V entries,
//
//   loss = logsumexp - (1 - s) * logit[target] - s * mean(logits) + z * logsumexp^2
struct LossOfRows : torch::autograd::Function<LossOfRows> {
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                        const LinearCrossEntropyOptions& options, const VocabularyParts& parts, Keep keep) {
    const double spread = options.label_smoothing;
    PartStatistics found = statistics_of_parts({hidden, weight, targets, chunk_bytes_on(hidden.device(), options)},
                                               parts, spread > 0, keep);
    const RowStatistics& rows = found.rows;
    const auto& [largest, sum] = rows.exponentials;
    context->save_for_backward({hidden, weight, targets, largest, sum});
    context->saved_data["call"] =
        torch::IValue::make_capsule(c10::make_intrusive<LossCall>(options, parts, std::move(found.kept)));
    context->set_materialize_grads(false);
    // Differences from the largest first: of a target that is nearly certain, only they are left.
    Tensor losses = sum.log() + (largest - rows.of_target) * (1 - spread);
    if (spread > 0) losses.add_(largest - rows.total / parts.entries, spread);
    if (options.z_loss > 0) losses.add_(rows.exponentials.logsumexp().square_(), options.z_loss);
    return losses.masked_fill_(is_counted(targets, options).logical_not_(), 0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    FSDP_CHECK(!torch::GradMode::is_enabled(),
               "linear_cross_entropy: found a backward with create_graph, expected one without: it has no second "
               "derivative. Use torch::cross_entropy_loss of torch::linear.");
    if (!gradients[0].defined()) return variable_list(6);
    const variable_list saved = context->get_saved_variables();
    const Tensor &hidden = saved[0], &weight = saved[1], &targets = saved[2];
    const auto call = c10::static_intrusive_pointer_cast<LossCall>(context->saved_data["call"].toCapsule());
    const LinearCrossEntropyOptions& options = call->options;
    const interpose::ComposedOperator operation("fsdp::linear_cross_entropy_backward", {&hidden, &weight});
    PartGradients into{.needs_hidden = context->needs_input_grad(0), .of_hidden = {}, .of_weight = {}};
    if (context->needs_input_grad(1)) into.of_weight = place_of_gradient(weight);
    write_gradients_of_parts(
        {hidden, weight, targets, chunk_bytes_on(hidden.device(), options)}, call->parts,
        of_logits(gradients[0], {.largest = saved[3], .sum = saved[4]}, targets, call->parts.entries, options),
        std::exchange(call->kept, {}), into);
    if (into.of_hidden.defined()) into.of_hidden = into.of_hidden.to(hidden.scalar_type());
    return {into.of_hidden, into.of_weight, Tensor(), Tensor(), Tensor(), Tensor()};
  }

 private:
  static LogitGradient of_logits(const Tensor& of_losses, const Exponentials& rows, const Tensor& targets,
                                 int64_t vocabulary, const LinearCrossEntropyOptions& options) {
    const double spread = options.label_smoothing;
    const Tensor gradient = of_losses.masked_fill(is_counted(targets, options).logical_not_(), 0);
    Tensor of_logsumexp = gradient;
    if (options.z_loss > 0) of_logsumexp = gradient * (rows.logsumexp() * (2 * options.z_loss) + 1);
    return {.largest = rows.largest,
            .factor = of_logsumexp / rows.sum,
            .everywhere = spread > 0 ? gradient * (-spread / static_cast<double>(vocabulary)) : Tensor(),
            .at_target = gradient * (spread - 1)};
  }
};

void check_options(const LinearCrossEntropyOptions& options) {
  FSDP_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
             "linear_cross_entropy: found label_smoothing {}, expected a share from 0 to 1", options.label_smoothing);
  FSDP_CHECK(options.z_loss >= 0 && std::isfinite(options.z_loss),
             "linear_cross_entropy: found z_loss {}, expected 0 or a positive factor", options.z_loss);
  FSDP_CHECK(options.chunk_bytes > 0, "linear_cross_entropy: found chunk_bytes {}, expected 1 or more",
             options.chunk_bytes);
  FSDP_CHECK(options.gpu_chunk_bytes > 0, "linear_cross_entropy: found gpu_chunk_bytes {}, expected 1 or more",
             options.gpu_chunk_bytes);
}

void check_tensors(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  FSDP_CHECK(weight.dim() == 2 && weight.size(0) > 0 && weight.is_floating_point(),
             "linear_cross_entropy: found a {} weight of shape [{}], expected [vocabulary, width] in a floating dtype",
             toString(weight.scalar_type()), fmt::join(weight.sizes(), ", "));
  FSDP_CHECK(hidden.dim() >= 1 && hidden.size(-1) == weight.size(1),
             "linear_cross_entropy: found hidden states of shape [{}], expected [..., {}], as wide as the weight",
             fmt::join(hidden.sizes(), ", "), weight.size(1));
  FSDP_CHECK(hidden.scalar_type() == weight.scalar_type(),
             "linear_cross_entropy: found {} hidden states and a {} weight, expected one dtype. Convert one of them.",
             toString(hidden.scalar_type()), toString(weight.scalar_type()));
  const auto leading = hidden.sizes().slice(0, static_cast<size_t>(hidden.dim() - 1));
  FSDP_CHECK(targets.scalar_type() == torch::kInt64 && targets.sizes() == leading,
             "linear_cross_entropy: found {} targets of shape [{}], expected Long of shape [{}]",
             toString(targets.scalar_type()), fmt::join(targets.sizes(), ", "), fmt::join(leading, ", "));
  FSDP_CHECK(hidden.device() == weight.device() && targets.device() == weight.device(),
             "linear_cross_entropy: found hidden states on {}, a weight on {} and targets on {}, expected one device",
             hidden.device().str(), weight.device().str(), targets.device().str());
}

void check_targets(const Tensor& targets, int64_t vocabulary, const LinearCrossEntropyOptions& options) {
  const Tensor wrong = targets.lt(0).logical_or_(targets.ge(vocabulary)).logical_and_(is_counted(targets, options));
  if (!wrong.any().item<bool>()) return;
  const Tensor place = wrong.nonzero()[0].cpu();
  const int64_t found = targets.masked_select(wrong)[0].item<int64_t>();
  const std::vector<int64_t> position(place.data_ptr<int64_t>(), place.data_ptr<int64_t>() + place.numel());
  FSDP_CHECK(false, "linear_cross_entropy: found the target {} at [{}], expected 0 to {}, or ignore_index, {}", found,
             fmt::join(position, ", "), vocabulary - 1, options.ignore_index);
}

Tensor losses_of_rows(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                      const LinearCrossEntropyOptions& options, const VocabularyParts& parts) {
  const Tensor rows = hidden.reshape({targets.numel(), hidden.size(-1)});
  const interpose::ComposedOperator operation(kName, {&rows, &weight});
  const bool has_backward = torch::GradMode::is_enabled() && (rows.requires_grad() || weight.requires_grad());
  return LossOfRows::apply(rows, weight, targets.flatten(), options, parts, has_backward ? Keep::WhatFits : Keep::None);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                            // NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
                            LinearCrossEntropyOptions options) {
  check_options(options);
  const Tensor activations = cast_to_unit(hidden, weight);
  check_tensors(activations, weight, targets);
  const VocabularyParts parts = vocabulary_parts(weight, options);
  if (options.check_targets) check_targets(targets, parts.entries, options);
  const Tensor losses = losses_of_rows(activations, weight, targets, options, parts);
  switch (options.reduction) {
    case LossReduction::Mean:
      return losses.sum() / is_counted(targets, options).sum().clamp_min(1);
    case LossReduction::Sum:
      return losses.sum();
    case LossReduction::None:
      break;
  }
  return losses.view(targets.sizes());
}

int64_t kept_logit_bytes(int64_t targets, int64_t vocabulary, torch::ScalarType dtype,
                         const LinearCrossEntropyOptions& options, const torch::Device& device) {
  check_options(options);
  FSDP_CHECK(targets >= 0 && vocabulary > 0,
             "kept_logit_bytes: found {} targets and {} entries of a vocabulary, expected 0 or more, and 1 or more",
             targets, vocabulary);
  const int64_t chunk_bytes = chunk_bytes_on(device, options);
  if (!options.divided_over) return bytes_of_kept_logits(targets, vocabulary, dtype, device, chunk_bytes);
  const AxisParts parts = parts_of("kept_logit_bytes", *options.divided_over, options.parts);
  int64_t bytes = 0;
  for (int part = parts.first; part < parts.first + parts.count; ++part)
    bytes +=
        bytes_of_kept_logits(targets, range_of_part(vocabulary, parts.total, part).numel(), dtype, device, chunk_bytes);
  return bytes;
}

}  // namespace fsdp
