#include "training/run_optimizer.h"

#include <algorithm>

#include "training/trained_model.h"

namespace trainer {

namespace {

using models::ParameterKind;

// The parameters of these kinds that the rank's part of the model has.
std::vector<std::string> names_of(const RunOptions& options, const fsdp::ShardedModel& model,
                                  const std::vector<ParameterKind>& kinds) {
  const std::vector<std::string> of_whole = models::names_of(options.model, kinds);
  std::vector<std::string> names;
  for (const fsdp::ShardedParameter& parameter : model.parameters()) {
    const std::string name = name_in_whole_model(options.model, parameter.name);
    if (std::ranges::find(of_whole, name) != of_whole.end()) names.push_back(parameter.name);
  }
  return names;
}

// Decay is for matrices that multiply: a bias, a norm's scale or an embedding has no reason to shrink.
std::vector<fsdp::ParameterGroup> groups_of(const RunOptions& options, const fsdp::ShardedModel& model) {
  using enum ParameterKind;
  const std::vector<std::string> names = names_of(options, model, {Embedding, Norm, Bias});
  if (names.empty()) return {};
  return {{.patterns = names, .weight_decay = 0.0}};
}

fsdp::StateDtype state_dtype_of(const RunOptions& options) {
  if (options.optimizer_state == "8bit") return fsdp::StateDtype::Block8;
  return options.optimizer_state == "bf16" ? fsdp::StateDtype::BFloat16 : fsdp::StateDtype::Float32;
}

fsdp::AdamWOptions adamw_options(const RunOptions& options, const fsdp::ShardedModel& model) {
  return {.lr = options.lr,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .weight_decay = options.weight_decay,
          .groups = groups_of(options, model),
          .state_dtype = state_dtype_of(options)};
}

fsdp::MuonOptions muon_options(const RunOptions& options, double lr, const fsdp::ShardedModel& model) {
  return {.lr = lr,
          .momentum = options.muon_momentum,
          .weight_decay = options.weight_decay,
          .matrices = names_of(options, model, {ParameterKind::Matrix}),
          .adamw = adamw_options(options, model)};
}

}  // namespace

RunOptimizer::RunOptimizer(const RunOptions& options, fsdp::ShardedModel& model)
    : lr_(options.lr), highest_muon_lr_(options.muon_lr.value_or(options.lr)) {
  if (options.optimizer == "muon") {
    auto muon = std::make_unique<fsdp::Muon>(model, muon_options(options, highest_muon_lr_, model));
    muon_ = muon.get();
    optimizer_ = std::move(muon);
  } else {
    optimizer_ = std::make_unique<fsdp::AdamW>(model, adamw_options(options, model));
  }
}

void RunOptimizer::set_lr(double share) {
  share_ = share;
  if (muon_ == nullptr) return optimizer_->set_lr(share * lr_);
  muon_->set_lr(share * highest_muon_lr_);
  muon_->set_adamw_lr(share * lr_);
}

std::optional<double> RunOptimizer::muon_lr() const {
  return muon_ == nullptr ? std::nullopt : std::optional(share_ * highest_muon_lr_);
}

}  // namespace trainer
