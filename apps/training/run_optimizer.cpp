#include "training/run_optimizer.h"

#include "models/model_config.h"

namespace trainer {

namespace {

// Decay is for matrices that multiply: a bias, a norm's scale or an embedding has no reason to shrink.
std::vector<std::string> without_decay(const RunOptions& options) {
  using enum models::ParameterKind;
  return models::names_of(options.model, {Embedding, Norm, Bias});
}

fsdp::StateDtype state_dtype_of(const RunOptions& options) {
  if (options.optimizer_state == "8bit") return fsdp::StateDtype::Block8;
  return options.optimizer_state == "bf16" ? fsdp::StateDtype::BFloat16 : fsdp::StateDtype::Float32;
}

fsdp::AdamWOptions adamw_options(const RunOptions& options) {
  return {.lr = options.lr,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .weight_decay = options.weight_decay,
          .groups = {{.patterns = without_decay(options), .weight_decay = 0.0}},
          .state_dtype = state_dtype_of(options)};
}

fsdp::MuonOptions muon_options(const RunOptions& options, double lr) {
  return {.lr = lr,
          .momentum = options.muon_momentum,
          .weight_decay = options.weight_decay,
          .matrices = models::names_of(options.model, {models::ParameterKind::Matrix}),
          .adamw = adamw_options(options)};
}

}  // namespace

RunOptimizer::RunOptimizer(const RunOptions& options, fsdp::ShardedModel& model)
    : lr_(options.lr), highest_muon_lr_(options.muon_lr.value_or(options.lr)) {
  if (options.optimizer == "muon") {
    auto muon = std::make_unique<fsdp::Muon>(model, muon_options(options, highest_muon_lr_));
    muon_ = muon.get();
    optimizer_ = std::move(muon);
  } else {
    optimizer_ = std::make_unique<fsdp::AdamW>(model, adamw_options(options));
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
