#include "base/error.h"
#include "stages/pass_inputs.h"
#include "stages/rewrites.h"
#include "stages/validate.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

class MessageWriter {
 public:
  explicit MessageWriter(const StageSchedule& passes)
      : passes_(passes),
        inputs_(passes.stages(), passes.micro_batches),
        next_(passes.ranks.size(), 0),
        result_(passes) {
    for (auto& actions : result_.ranks) actions.clear();
  }

  StageSchedule write() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < next_.size(); ++rank) moved |= advance(rank);
    }
    return std::move(result_);
  }

 private:
  std::vector<StageAction>& result_of(int rank) { return result_.ranks[rank]; }

  bool advance(size_t rank) {
    const auto& actions = passes_.ranks[rank];
    if (next_[rank] == actions.size()) return false;
    const auto joined = together(actions, next_[rank]);
    for (const StageAction& action : joined) {
      if (is_pass(action.kind) && !inputs_.has(action)) return false;
    }
    result_.ranks[rank].insert(result_.ranks[rank].end(), joined.begin(), joined.end());
    for (const StageAction& action : joined) {
      inputs_.deliver(action, 0);
      send_result(action);
    }
    next_[rank] += joined.size();
    return true;
  }

  void send_result(const StageAction& pass) {
    const bool forward = pass.kind == Kind::Forward;
    if (!forward && !makes_input_gradient(pass.kind)) return;
    const StageAction send{
        .kind = forward ? Kind::SendForward : Kind::SendBackward, .stage = pass.stage, .micro_batch = pass.micro_batch};
    const StageAction receive = other_end(send);
    if (receive.stage < 0 || receive.stage >= passes_.stages()) return;
    if (passes_.rank_of(receive.stage) == passes_.rank_of(send.stage)) return;
    result_of(passes_.rank_of(send.stage)).push_back(send);
    result_of(passes_.rank_of(receive.stage)).push_back(receive);
  }

  const StageSchedule& passes_;
  PassInputs inputs_;
  std::vector<size_t> next_;  // by rank: the position of its next action
  StageSchedule result_;
};

}  // namespace

StageSchedule add_messages(const StageSchedule& schedule) {
  FSDP_CHECK(!has_messages(schedule), "add_messages: the schedule has sends and receives, expected passes alone");
  validate(schedule);
  return MessageWriter(without_idle(schedule)).write();
}

}  // namespace fsdp::stages
