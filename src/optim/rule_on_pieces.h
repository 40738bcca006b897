// A rule at work on parameters of a model: which group each belongs to, and the state that the rule keeps for it.
//
// Everything is per parameter of the model; parameters that the rule does not step have no state here. One thread at a
// time. Accounts for the bytes of its state with the model as long as it lives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model.h"
#include "optim/kept_states.h"
#include "optim/rule.h"

namespace fsdp::optim {

class RuleOnPieces {
 public:
  // Steps the parameters at the places `members` of the model. Throws Error for settings out of range or unknown to the
  // rule, and for a pattern that matches none of them.
  RuleOnPieces(std::shared_ptr<engine::Model> model, Rule rule, std::vector<ParameterGroup> groups,
               const std::vector<size_t>& members);
  RuleOnPieces(const RuleOnPieces&) = delete;
  RuleOnPieces& operator=(const RuleOnPieces&) = delete;

  const std::string& name() const { return rule_.name; }
  bool element_wise() const { return rule_.element_wise; }
  // Steps each member of the unit that has a gradient, by that times the factors, and casts it to the
  // dtype of the unit's full parameters. The gradients are closed, and the unit's shard may be written.
  void update(const engine::ShardedUnit& unit, const engine::GradientFactors& factors);
  // For members whose group sets no rate of its own.
  void set_lr(double lr);
  // Adds the members' tensors.
  void add_to(Optimizer::State& state) const;

 private:
  void check_patterns(const std::vector<size_t>& members) const;
  void check_devices(const std::vector<size_t>& members) const;
  UpdateBatch batch_of(size_t group, const engine::ShardedUnit& unit);
  void make_state(size_t parameter);

  // The model's report of the state, as long as this lives.
  class ReportedBytes {
   public:
    explicit ReportedBytes(engine::Model& model) : model_(model) {}
    ~ReportedBytes() { model_.add_optimizer_bytes(-bytes_); }
    ReportedBytes(const ReportedBytes&) = delete;
    ReportedBytes& operator=(const ReportedBytes&) = delete;
    void add(int64_t bytes) {
      bytes_ += bytes;
      model_.add_optimizer_bytes(bytes);
    }

   private:
    engine::Model& model_;
    int64_t bytes_ = 0;
  };

  std::shared_ptr<engine::Model> model_;
  Rule rule_;
  std::vector<ParameterGroup> groups_;              // the last has no patterns: what matches no other
  std::vector<std::vector<size_t>> members_;        // of each group
  std::vector<KeptTensor> kept_;                    // of the rule's states
  std::vector<std::vector<torch::Tensor>> states_;  // of each of those, per parameter
  std::vector<torch::Tensor> steps_;                // per parameter
  ReportedBytes bytes_{*model_};
};

// The one rule of an optimizer that steps every parameter in the same way.
std::vector<std::unique_ptr<RuleOnPieces>> on_all_parameters(const ShardedModel& model, Rule rule,
                                                             std::vector<ParameterGroup> groups);

}  // namespace fsdp::optim
