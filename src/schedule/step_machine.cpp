#include "schedule/step_machine.h"

#include <array>

namespace fsdp::schedule {

namespace {

using Row = std::array<Misuse, kSituations>;

constexpr Misuse kGoesOn = Misuse::None;
constexpr Misuse kBroken = Misuse::StepBroken, kBegun = Misuse::StepBegun, kInBackward = Misuse::InsideBackward,
                 kInFull = Misuse::InsideFullScope, kLocal = Misuse::SumIsLocal, kLost = Misuse::SumLost,
                 kClosed = Misuse::BackwardAfterClose, kNoValues = Misuse::NoValues, kValuesLost = Misuse::ValuesLost;

// clang-format off
constexpr std::array<Row, kCalls> kTable{{
  //                          Broken   Stepping                    InsideBackward                FullScope               LastBackward             NoSync   Incomplete Closed   NoValues  ValuesLost
  /* UseParameter         */ {kBroken, Misuse::UseAfterStepBegan,  kGoesOn,                      kGoesOn,                kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kNoValues, kValuesLost},
  /* AddGradient          */ {kBroken, Misuse::UseAfterStepBegan,  kGoesOn,                      kGoesOn,                kGoesOn,                 kGoesOn, kLost,     kClosed, kGoesOn,   kValuesLost},
  /* CloseSum             */ {kBroken, Misuse::SumAfterStepBegan,  kInBackward,                  kGoesOn,                kGoesOn,                 kLocal,  kLost,     kGoesOn, kGoesOn,   kValuesLost},
  /* Step                 */ {kBroken, kGoesOn,                    kInBackward,                  kInFull,                kGoesOn,                 kLocal,  kLost,     kGoesOn, kNoValues, kValuesLost},
  /* ZeroGrad             */ {kBroken, kBegun,                     kInBackward,                  kGoesOn,                kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kGoesOn,   kGoesOn},
  /* ChangeSettings       */ {kBroken, kBegun,                     kGoesOn,                      kGoesOn,                kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kGoesOn,   kValuesLost},
  /* BackwardWithoutBatch */ {kBroken, kBegun,                     kInBackward,                  kGoesOn,                kGoesOn,                 kGoesOn, kLost,     kClosed, kNoValues, kValuesLost},
  /* OpenStepInBackward   */ {kBroken, Misuse::EarlyScopeOpen,     Misuse::EarlyScopeInBackward, kGoesOn,                Misuse::EarlyScopeOpen,  kGoesOn, kGoesOn,   kGoesOn, kGoesOn,   kValuesLost},
  /* OpenFullParameters   */ {kBroken, kBegun,                     kInBackward,                  Misuse::FullScopeOpen,  kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kNoValues, kValuesLost},
  /* ReadState            */ {kBroken, kBegun,                     kInBackward,                  kInFull,                kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kNoValues, kValuesLost},
  /* WriteState           */ {kBroken, kBegun,                     kInBackward,                  kInFull,                kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kGoesOn,   kGoesOn},
  /* LoadCheckpoint       */ {kGoesOn, kGoesOn,                    kInBackward,                  kInFull,                kGoesOn,                 kGoesOn, kGoesOn,   kGoesOn, kGoesOn,   kGoesOn},
}};
// clang-format on

}  // namespace

Misuse misuse_of(Call call, Situation situation) {
  return kTable.at(static_cast<size_t>(call)).at(static_cast<size_t>(situation));
}

Misuse StepMachine::check_situations(Call call) const {
  for (int i = 0; situations_ >> i != 0; ++i) {
    const Misuse misuse = misuse_of(call, static_cast<Situation>(i));
    if ((situations_ >> i & 1) != 0 && misuse != Misuse::None) return misuse;
  }
  return Misuse::None;
}

void StepMachine::update() {
  situations_ = 0;
  for (int i = 0; i < kSituations; ++i) situations_ |= uint32_t{is(static_cast<Situation>(i))} << i;
}

bool StepMachine::is(Situation situation) const {
  switch (situation) {
    case Situation::Broken:
      return early_step_ == EarlyStepPhase::Broken;
    case Situation::Stepping:
      return early_step_ == EarlyStepPhase::Stepping;
    case Situation::InsideBackward:
      return micro_batch_ == MicroBatchPhase::Backward;
    case Situation::FullScope:
      return full_scope_;
    case Situation::LastBackward:
      return early_step_ == EarlyStepPhase::LastBackward;
    case Situation::NoSync:
      return no_sync_ > 0;
    case Situation::Incomplete:
      return sum_ == SumPhase::Incomplete;
    case Situation::Closed:
      return sum_ == SumPhase::Closed;
    case Situation::NoValues:
      return values_ == ValuePhase::Missing;
    case Situation::ValuesLost:
      return values_ == ValuePhase::Lost;
  }
  return false;
}

void StepMachine::backward_abandoned(bool lost) {
  micro_batch_ = MicroBatchPhase::Forward;
  if (lost) sum_ = SumPhase::Incomplete;
  update();
}

void StepMachine::break_step(std::string why) {
  early_step_ = EarlyStepPhase::Broken;
  why_broken_ = std::move(why);
  update();
}

}  // namespace fsdp::schedule
