// Each stage runs each micro-batch once, its passes in order.
#include "stages/checks.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

class PassCheck {
 public:
  PassCheck(const StageSchedule& schedule, const ActionPlaces& places) : schedule_(schedule), places_(places) {}

  void run() const {
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      for (int micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch) check(stage, micro_batch);
      check_gradient_order(stage);
    }
  }

 private:
  void check(int stage, int micro_batch) const {
    const ActionPlace& forward = expect(Kind::Forward, stage, micro_batch);
    const ActionPlace* whole = places_.find(Kind::Backward, stage, micro_batch);
    const ActionPlace* input = places_.find(Kind::InputGradient, stage, micro_batch);
    const ActionPlace* weight = places_.find(Kind::WeightGradient, stage, micro_batch);
    if (whole != nullptr) {
      expect_order(forward, *whole);
      for (const ActionPlace* part : {input, weight}) {
        if (part != nullptr)
          refuse(schedule_, *part, "{} at position {} is the whole backward, expected no part of it",
                 to_string(schedule_.at(*whole)), whole->position);
      }
    } else {
      if (input == nullptr) refuse_missing(stage, fmt::format("{0}B{1}, or {0}I{1} and {0}W{1},", stage, micro_batch));
      expect_order(forward, *input);
      expect_order(*input, expect(Kind::WeightGradient, stage, micro_batch));
    }
  }

  void check_gradient_order(int stage) const {
    const int rank = schedule_.rank_of(stage);
    int next = 0;
    for (size_t i = 0; i < schedule_.ranks[rank].size(); ++i) {
      const StageAction& action = schedule_.at({rank, i});
      if (action.stage != stage || !adds_gradients(action.kind)) continue;
      if (action.micro_batch != next)
        refuse(schedule_, {rank, i}, "gradients are added in micro-batch order, expected those of micro-batch {} next",
               next);
      ++next;
    }
  }

  const ActionPlace& expect(Kind kind, int stage, int micro_batch) const {
    const ActionPlace* place = places_.find(kind, stage, micro_batch);
    if (place == nullptr) refuse_missing(stage, to_string({.kind = kind, .stage = stage, .micro_batch = micro_batch}));
    return *place;
  }
  void expect_order(const ActionPlace& first, const ActionPlace& second) const {
    if (first.position > second.position)
      refuse(schedule_, second, "expected {} before it, found it at position {}", to_string(schedule_.at(first)),
             first.position);
  }
  [[noreturn]] void refuse_missing(int stage, const std::string& missing) const {
    refuse(schedule_, schedule_.end_of(schedule_.rank_of(stage)),
           "{} is missing, expected each stage to run each of {} micro-batches", missing, schedule_.micro_batches);
  }

  const StageSchedule& schedule_;
  const ActionPlaces& places_;
};

}  // namespace

void check_passes(const StageSchedule& schedule, const ActionPlaces& places) { PassCheck(schedule, places).run(); }

}  // namespace fsdp::stages
