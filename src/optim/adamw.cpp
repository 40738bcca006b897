#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>

#include <cmath>

#include "base/error.h"
#include "base/names.h"
#include "engine/model.h"
#include "fsdp/optim.h"

namespace fsdp {

namespace {

struct Hyperparameters {
  double lr, beta1, beta2, eps, weight_decay;
};

Hyperparameters resolve(const AdamWOptions& options, const ParameterGroup& group) {
  return {group.lr.value_or(options.lr), group.beta1.value_or(options.beta1), group.beta2.value_or(options.beta2),
          group.eps.value_or(options.eps), group.weight_decay.value_or(options.weight_decay)};
}

void check(const Hyperparameters& found) {
  FSDP_CHECK(found.lr >= 0 && std::isfinite(found.lr), "AdamW: found lr {}, expected 0 or more", found.lr);
  FSDP_CHECK(found.beta1 >= 0 && found.beta1 < 1, "AdamW: found beta1 {}, expected 0 <= beta1 < 1", found.beta1);
  FSDP_CHECK(found.beta2 >= 0 && found.beta2 < 1, "AdamW: found beta2 {}, expected 0 <= beta2 < 1", found.beta2);
  FSDP_CHECK(found.eps >= 0, "AdamW: found eps {}, expected 0 or more", found.eps);
  FSDP_CHECK(found.weight_decay >= 0, "AdamW: found weight_decay {}, expected 0 or more", found.weight_decay);
}

// The group of the options that a parameter belongs to, or the one after the last, which sets nothing.
size_t group_of(const std::string& name, const std::vector<ParameterGroup>& groups) {
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const std::string& pattern : groups[group].patterns) {
      if (matches(pattern, name)) return group;
    }
  }
  return groups.size();
}

}  // namespace

class AdamW::Impl {
 public:
  Impl(std::shared_ptr<engine::Model> model, AdamWOptions options)
      : model_(std::move(model)), options_(std::move(options)) {
    check_patterns();
    for (const ParameterGroup& group : groups()) check(resolve(options_, group));
    members_.resize(options_.groups.size() + 1);
    for (size_t i = 0; i < model_->parameters().size(); ++i) {
      const ShardedParameter& parameter = model_->parameters()[i];
      members_[group_of(parameter.name, options_.groups)].push_back(i);
      first_moments_.push_back(torch::zeros_like(parameter.piece));
      second_moments_.push_back(torch::zeros_like(parameter.piece));
      steps_.push_back(torch::zeros({}));
      model_->add_optimizer_bytes(2 * parameter.piece.nbytes());
    }
  }

  ~Impl() {
    for (const torch::Tensor& moment : first_moments_) model_->add_optimizer_bytes(-2 * moment.nbytes());
  }

  void step() {
    torch::NoGradGuard no_grad;
    model_->check_parameters("AdamW::step");
    model_->close_gradients();
    model_->begin_write();
    const std::vector<ParameterGroup> groups = this->groups();
    for (size_t group = 0; group < groups.size(); ++group)
      step_group(members_[group], resolve(options_, groups[group]));
    model_->publish();
  }

  void set_lr(double lr) {
    AdamWOptions options = options_;
    options.lr = lr;
    check(resolve(options, {}));
    options_ = std::move(options);
  }

  State state() {
    return {.elements = {{"exp_avg", first_moments_}, {"exp_avg_sq", second_moments_}}, .scalars = {{"step", steps_}}};
  }

  void zero_grad() { model_->zero_grad(); }

 private:
  std::vector<ParameterGroup> groups() const {
    std::vector<ParameterGroup> groups = options_.groups;
    groups.emplace_back();
    return groups;
  }

  void check_patterns() const {
    for (const ParameterGroup& group : options_.groups) {
      for (const std::string& pattern : group.patterns) {
        const auto& all = model_->parameters();
        FSDP_CHECK(std::any_of(all.begin(), all.end(), [&](const auto& one) { return matches(pattern, one.name); }),
                   "AdamW: the pattern '{}' matches no parameter; the first one is named '{}'", pattern,
                   all.empty() ? "" : all[0].name);
      }
    }
  }

  // One call of the kernel for all pieces of a group that have a gradient.
  void step_group(const std::vector<size_t>& members, const Hyperparameters& with) {
    std::vector<torch::Tensor> pieces, gradients, first, second, steps, all_steps;
    for (size_t i : members) {
      const torch::Tensor& piece = model_->parameters()[i].piece;
      if (!piece.grad().defined()) continue;
      all_steps.push_back(steps_[i]);
      if (piece.numel() == 0) continue;
      pieces.push_back(piece);
      gradients.push_back(piece.grad());
      first.push_back(first_moments_[i]);
      second.push_back(second_moments_[i]);
      steps.push_back(steps_[i]);
    }
    if (!all_steps.empty()) at::_foreach_add_(all_steps, 1);
    if (pieces.empty()) return;
    at::_fused_adamw_(pieces, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, with.lr, with.beta1, with.beta2,
                      with.weight_decay, with.eps, /*amsgrad=*/false, /*maximize=*/false);
  }

  std::shared_ptr<engine::Model> model_;
  AdamWOptions options_;
  std::vector<std::vector<size_t>> members_;  // parameters of each group; the last has those that match none
  std::vector<torch::Tensor> first_moments_, second_moments_, steps_;  // per parameter
};

AdamW::AdamW(ShardedModel& model, AdamWOptions options)
    : impl_(std::make_unique<Impl>(model.shared_model(), std::move(options))) {}
AdamW::~AdamW() = default;
AdamW::AdamW(AdamW&&) noexcept = default;
AdamW& AdamW::operator=(AdamW&&) noexcept = default;
void AdamW::step() { impl_->step(); }
void AdamW::zero_grad() { impl_->zero_grad(); }
void AdamW::set_lr(double lr) { impl_->set_lr(lr); }
Optimizer::State AdamW::state() { return impl_->state(); }

}  // namespace fsdp
