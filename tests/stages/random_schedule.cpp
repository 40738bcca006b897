#include <algorithm>

#include "stages/pass_inputs.h"
#include "stages/support.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

int number_up_to(std::mt19937& random, int most) {
  return static_cast<int>(random() % static_cast<unsigned>(most)) + 1;
}

// The passes that a micro-batch has had on a stage.
struct MicroBatchState {
  bool forward = false, input_gradient = false, weight_gradient = false;
  bool divided = false;
};

class RandomRun {
 public:
  explicit RandomRun(std::mt19937& random) : random_(random) {
    const int ranks = number_up_to(random, 4);
    schedule_.ranks.resize(ranks);
    for (int i = 0; i < ranks; ++i) schedule_.rank_of_stage.push_back(i);
    for (int i = number_up_to(random, 5); i > 1; --i)
      schedule_.rank_of_stage.push_back(number_up_to(random, ranks) - 1);
    std::ranges::shuffle(schedule_.rank_of_stage, random);
    schedule_.micro_batches = number_up_to(random, 5);
    added_.resize(schedule_.stages(), 0);
    states_.resize(schedule_.stages() * schedule_.micro_batches);
    for (MicroBatchState& state : states_) state.divided = random() % 2 == 0;
  }

  StageSchedule run() {
    PassInputs inputs(schedule_.stages(), schedule_.micro_batches);
    for (std::vector<StageAction> ready; !(ready = ready_passes(inputs)).empty();) {
      const StageAction pass = ready[random_() % ready.size()];
      schedule_.ranks[schedule_.rank_of(pass.stage)].push_back(pass);
      inputs.deliver(pass, 0);
      MicroBatchState& state = states_[pass.stage * schedule_.micro_batches + pass.micro_batch];
      state.forward = true;
      state.input_gradient |= makes_input_gradient(pass.kind);
      state.weight_gradient |= adds_gradients(pass.kind);
      added_[pass.stage] += adds_gradients(pass.kind);
    }
    return schedule_;
  }

 private:
  std::vector<StageAction> ready_passes(const PassInputs& inputs) const {
    std::vector<StageAction> ready;
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      for (int i = 0; i < schedule_.micro_batches; ++i) {
        const StageAction pass = next_pass(stage, i);
        const bool in_order = !adds_gradients(pass.kind) || i == added_[stage];
        if (pass.kind != Kind::Idle && in_order && inputs.has(pass)) ready.push_back(pass);
      }
    }
    return ready;
  }
  StageAction next_pass(int stage, int micro_batch) const {
    const MicroBatchState& state = states_[stage * schedule_.micro_batches + micro_batch];
    StageAction pass{.stage = stage, .micro_batch = micro_batch};
    if (!state.forward) {
      pass.kind = Kind::Forward;
    } else if (!state.input_gradient) {
      pass.kind = state.divided ? Kind::InputGradient : Kind::Backward;
    } else if (!state.weight_gradient) {
      pass.kind = Kind::WeightGradient;
    }
    return pass;
  }

  std::mt19937& random_;
  StageSchedule schedule_;
  std::vector<MicroBatchState> states_;  // by stage and micro-batch
  std::vector<int> added_;               // by stage: micro-batches whose gradients were added
};

}  // namespace

StageSchedule random_schedule(std::mt19937& random) { return RandomRun(random).run(); }

}  // namespace fsdp::stages
