#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/model.h"
#include "fsdp/optim.h"
#include "interpose/accumulator.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

void check(const GradScalerOptions& options) {
  FSDP_CHECK(options.init_scale > 0 && std::isfinite(options.init_scale),
             "GradScaler: found init_scale {}, expected a positive number", options.init_scale);
  FSDP_CHECK(options.growth_factor > 1 && std::isfinite(options.growth_factor),
             "GradScaler: found growth_factor {}, expected more than 1", options.growth_factor);
  FSDP_CHECK(options.backoff_factor > 0 && options.backoff_factor < 1,
             "GradScaler: found backoff_factor {}, expected more than 0 and less than 1", options.backoff_factor);
  FSDP_CHECK(options.growth_interval > 0, "GradScaler: found growth_interval {}, expected 1 or more",
             options.growth_interval);
}

// A step inside a backward would use scaled gradients. The hook comes before anything else in the backward.
void refuse_steps_in_backward(const torch::Tensor& scaled) {
  scaled.register_hook([links = interpose::links_behind(scaled)](const torch::Tensor&) {
    for (const auto& link : links) {
      const auto* model = dynamic_cast<const engine::Events*>(link->listener);
      FSDP_CHECK(model == nullptr || !model->steps_in_backward(),
                 "GradScaler: the backward of a scaled loss came in step_in_backward(), which steps units before their "
                 "gradients are unscaled. Nothing was stepped. Leave step_in_backward() out of such steps.");
    }
  });
}

// True if the other parts of the model are finite as well.
bool all_parts_finite(engine::Model& model, bool finite) {
  std::vector<std::shared_ptr<engine::OtherParts>> all(model.axes().begin(), model.axes().end());
  if (auto stages = model.other_parts()) all.push_back(std::move(stages));
  for (const auto& parts : all) {
    for (const torch::Tensor& other : model.gather_over(*parts, torch::tensor({finite})))
      finite = finite && other.item<bool>();
  }
  return finite;
}

// Multiplies the gradients of this rank's pieces; false when one of them, on any rank, is infinite or NaN.
bool unscale_pieces(engine::Model& model, double scale) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  model.scale_now();
  std::vector<torch::Tensor> gradients;
  for (const ShardedParameter& parameter : model.parameters()) {
    const torch::Tensor& gradient = interpose::gradient_of(parameter.piece);
    if (gradient.defined()) gradients.push_back(gradient);
  }
  FSDP_CHECK(!gradients.empty() || model.is_frozen_part(),
             "GradScaler: found no gradients to unscale. Call backward() first.");
  const torch::TensorOptions options = model.parameters().at(0).piece.options();
  torch::Tensor not_finite = torch::zeros({1}, options);
  if (!gradients.empty()) {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, not_finite,
                                                   torch::full({}, static_cast<float>(1.0 / scale), options));
  }
  model.group().all_reduce_(not_finite);
  return all_parts_finite(model, not_finite.item<float>() == 0);
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options), state_({options.init_scale, 0}) {
  check(options);
}

torch::Tensor GradScaler::scale(const torch::Tensor& loss) const {
  if (!options_.get().enabled) return loss;
  // A tensor and not a number, so that an fp16 loss becomes fp32, which holds the product.
  torch::Tensor scaled =
      loss * torch::full({}, static_cast<float>(state_.get().scale), loss.options().dtype(torch::kFloat32));
  if (scaled.requires_grad()) refuse_steps_in_backward(scaled);
  return scaled;
}

void GradScaler::unscale_(ShardedModel& model) {
  if (options_.get().enabled) unscale(model.model());
}

bool GradScaler::unscale(engine::Model& model) {
  FSDP_CHECK(!progress_.get().contains(&model),
             "GradScaler: the gradients of this model were unscaled since the last update(), expected once a step. "
             "Call unscale_() once, before step(), and update() after it.");
  model.check_parameters("GradScaler::unscale_");
  model.close_gradients("GradScaler::unscale_");
  const bool finite = unscale_pieces(model, state_.get().scale);
  progress_.get()[&model] = finite ? Progress::Finite : Progress::NotFinite;
  return finite;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.get().enabled) {
    optimizer.step();
    return true;
  }
  engine::Model& model = optimizer.model();
  if (!progress_.get().contains(&model)) unscale(model);
  Progress& progress = progress_.get().at(&model);
  FSDP_CHECK(progress == Progress::Finite || progress == Progress::NotFinite,
             "GradScaler: step() was called for this model since the last update(), expected once. Call update() after "
             "each step.");
  const bool finite = progress == Progress::Finite;
  if (finite) optimizer.step();
  progress = finite ? Progress::Stepped : Progress::Skipped;
  return finite;
}

void GradScaler::update() {
  if (!options_.get().enabled) return;
  FSDP_CHECK(!progress_.get().empty(),
             "GradScaler: update() found no gradients unscaled since the last one. Call step() first.");
  const bool finite = std::none_of(progress_.get().begin(), progress_.get().end(), [](const auto& one) {
    return one.second == Progress::NotFinite || one.second == Progress::Skipped;
  });
  progress_.get().clear();
  if (!finite) {
    state_.get() = {state_.get().scale * options_.get().backoff_factor, 0};
  } else if (++state_.get().finite_steps >= options_.get().growth_interval) {
    const double grown = state_.get().scale * options_.get().growth_factor;
    state_.get() = {std::isfinite(static_cast<float>(grown)) ? grown : state_.get().scale, 0};
  }
}

void GradScaler::load_state(const State& state) {
  FSDP_CHECK(state.scale > 0 && std::isfinite(state.scale) && state.finite_steps >= 0,
             "GradScaler: found a scale of {} after {} finite steps, expected a positive number and 0 or more",
             state.scale, state.finite_steps);
  state_.get() = state;
}

}  // namespace fsdp
