// A step: the gradients' sum is closed; then unit by unit its shard is opened, each rule steps its parameters, and the
// shard is published.
#include "engine/model.h"
#include "fsdp/optim.h"
#include "optim/rule_on_pieces.h"

namespace fsdp {

PieceOptimizer::PieceOptimizer(std::shared_ptr<engine::Model> model, Rules rules)
    : model_(std::move(model)), rules_(std::move(rules)) {}
PieceOptimizer::~PieceOptimizer() = default;
PieceOptimizer::PieceOptimizer(PieceOptimizer&&) noexcept = default;
PieceOptimizer& PieceOptimizer::operator=(PieceOptimizer&&) noexcept = default;

void PieceOptimizer::step() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  model_->check_parameters(rules_[0]->name() + "::step");
  model_->check_not_full("a step");
  model_->close_gradients();
  const std::vector<float> factors = model_->take_factors();
  model_->write_units([&](const engine::Unit& unit) {
    for (auto& rule : rules_) rule->update(unit, factors);
  });
}

void PieceOptimizer::zero_grad() { model_->zero_grad(); }
void PieceOptimizer::set_lr(double lr) { rules_[0]->set_lr(lr); }

Optimizer::State PieceOptimizer::state() {
  State state;
  for (const auto& rule : rules_) rule->add_to(state);
  return state;
}

}  // namespace fsdp
