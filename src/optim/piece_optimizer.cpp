// A step: the gradients' sum is closed; then unit by unit its shard is opened, each rule steps its parameters, and the
// shard is published (schedule/optimizer_step.h).
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/model.h"
#include "fsdp/optim.h"
#include "optim/rule_on_pieces.h"

namespace fsdp {

StepInBackward::StepInBackward(std::shared_ptr<engine::Model> model) : model_(std::move(model)) {}
StepInBackward::~StepInBackward() {
  if (!model_.is_moved_from()) model_->close_step_in_backward();
}

PieceOptimizer::PieceOptimizer(std::shared_ptr<engine::Model> model, Rules rules)
    : model_(std::move(model)), rules_(std::move(rules)) {
  std::vector<optim::RuleOnPieces*> all;
  for (auto& rule : rules_.get()) all.push_back(rule.get());
  update_.get() =
      std::make_shared<const Update>([all](const engine::ShardedUnit& unit, const engine::GradientFactors& factors) {
        for (optim::RuleOnPieces* rule : all) rule->update(unit, factors);
      });
}
PieceOptimizer::~PieceOptimizer() { leave_model(); }
PieceOptimizer::PieceOptimizer(PieceOptimizer&&) noexcept = default;
PieceOptimizer& PieceOptimizer::operator=(PieceOptimizer&& other) noexcept {
  if (this == &other) return *this;
  leave_model();
  model_ = std::move(other.model_);
  rules_ = std::move(other.rules_);
  update_ = std::move(other.update_);
  gave_state_out_ = other.gave_state_out_;
  return *this;
}

void PieceOptimizer::leave_model() noexcept {
  if (!update_.is_moved_from()) model_->forget_update(update_.get());
}

void PieceOptimizer::step() {
  model_->check_parameters(rules()[0]->name() + "::step");
  model_->step(update_.get());
}

StepInBackward PieceOptimizer::step_in_backward() {
  for (const auto& rule : rules()) {
    FSDP_CHECK(rule->element_wise(),
               "{}::step_in_backward: its update needs whole matrices, which all ranks put together at the same time, "
               "and in a backward they are at different places. Call step() alone, or use AdamW, Adam or SGD.",
               rule->name());
  }
  model_->check_parameters(rules()[0]->name() + "::step_in_backward");
  model_->open_step_in_backward(update_.get());
  return StepInBackward(model_.get());
}

void PieceOptimizer::zero_grad() { model_->zero_grad(); }

void PieceOptimizer::set_lr(double lr) {
  model_->check(schedule::Call::ChangeSettings, "set_lr");
  rules()[0]->set_lr(lr);
}

// The caller may write to it.
Optimizer::State PieceOptimizer::state() {
  model_->give_state_out();
  gave_state_out_ = true;
  return own_state();
}

Optimizer::State PieceOptimizer::own_state() const {
  State state;
  for (const auto& rule : rules_.get()) rule->add_to(state);
  return state;
}

}  // namespace fsdp
