// The table of calls and situations, walked without ranks or tensors; and the page that is written from it.
#include "schedule/step_machine.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

namespace fsdp::schedule {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Call> all_calls() {
  std::vector<Call> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(static_cast<Call>(i));
  return calls;
}

struct Way {
  Situation situation;
  std::function<void(StepMachine&)> enter, leave;
};

const std::vector<Way>& ways() {
  using S = Situation;
  using M = StepMachine;
  static const std::vector<Way> ways{
      {S::Broken, [](M& m) { m.break_step("a backward threw"); }, [](M& m) { m.end_step(); }},
      {S::Stepping, [](M& m) { m.open_last_backward(), m.begin_stepping(); }, [](M& m) { m.end_step(); }},
      {S::InsideBackward, [](M& m) { m.backward_begins(); }, [](M& m) { m.backward_ends(); }},
      {S::FullScope, [](M& m) { m.open_full_scope(); }, [](M& m) { m.close_full_scope(); }},
      {S::LastBackward, [](M& m) { m.open_last_backward(); }, [](M& m) { m.end_step(); }},
      {S::NoSync, [](M& m) { m.open_no_sync(), m.open_no_sync(), m.close_no_sync(); }, [](M& m) { m.close_no_sync(); }},
      {S::Incomplete, [](M& m) { m.backward_begins(), m.backward_abandoned(/*lost=*/true); },
       [](M& m) { m.reset_sum(); }},
      {S::Closed, [](M& m) { m.close_sum(); }, [](M& m) { m.reset_sum(); }},
      {S::NoValues, [](M& m) { m.miss_values(); }, [](M& m) { m.have_values(); }},
      {S::ValuesLost, [](M& m) { m.lose_values(); }, [](M& m) { m.have_values(); }},
  };
  return ways;
}

TEST(StepMachine, LetsEveryCallGoOnAtTheBeginningOfAStep) {
  for (Call call : all_calls()) EXPECT_EQ(StepMachine().check(call), Misuse::None) << static_cast<int>(call);
}

TEST(StepMachine, AnswersWithTheCellOfItsSituationAndForgetsItBehind) {
  ASSERT_EQ(ways().size(), kSituations);
  for (const Way& way : ways()) {
    StepMachine machine;
    way.enter(machine);
    for (Call call : all_calls()) {
      EXPECT_EQ(machine.check(call), misuse_of(call, way.situation))
          << "call " << static_cast<int>(call) << ", situation " << static_cast<int>(way.situation);
    }
    way.leave(machine);
    for (Call call : all_calls()) EXPECT_EQ(machine.check(call), Misuse::None) << static_cast<int>(call);
  }
}

TEST(StepMachine, AnswersWithTheMostUrgentOfTwoSituations) {
  for (const Way& first : ways()) {
    for (const Way& second : ways()) {
      const bool same_axis = (first.situation <= Situation::Stepping && second.situation == Situation::LastBackward) ||
                             first.situation == Situation::NoValues;
      if (first.situation >= second.situation || same_axis || first.situation == Situation::Broken ||
          first.situation == Situation::Incomplete || second.situation == Situation::Incomplete)
        continue;
      StepMachine machine;
      first.enter(machine);
      second.enter(machine);
      for (Call call : all_calls()) {
        const Misuse urgent = misuse_of(call, first.situation);
        EXPECT_EQ(machine.check(call), urgent != Misuse::None ? urgent : misuse_of(call, second.situation))
            << "call " << static_cast<int>(call) << ", situations " << static_cast<int>(first.situation) << " and "
            << static_cast<int>(second.situation);
      }
    }
  }
}

TEST(StepMachine, RefusesWhatWouldTrainTheWrongThing) {
  EXPECT_EQ(misuse_of(Call::AddGradient, Situation::Closed), Misuse::BackwardAfterClose);
  EXPECT_EQ(misuse_of(Call::Step, Situation::NoSync), Misuse::SumIsLocal);
  EXPECT_EQ(misuse_of(Call::Step, Situation::Incomplete), Misuse::SumLost);
  EXPECT_EQ(misuse_of(Call::Step, Situation::FullScope), Misuse::InsideFullScope);
  EXPECT_EQ(misuse_of(Call::ReadState, Situation::FullScope), Misuse::InsideFullScope);
  EXPECT_EQ(misuse_of(Call::ZeroGrad, Situation::InsideBackward), Misuse::InsideBackward);
  EXPECT_EQ(misuse_of(Call::CloseSum, Situation::Stepping), Misuse::SumAfterStepBegan);
  EXPECT_EQ(misuse_of(Call::LoadCheckpoint, Situation::Broken), Misuse::None);  // the way out
  EXPECT_EQ(misuse_of(Call::ZeroGrad, Situation::Incomplete), Misuse::None);    // the way out
  EXPECT_EQ(misuse_of(Call::UseParameter, Situation::NoValues), Misuse::NoValues);
  EXPECT_EQ(misuse_of(Call::ReadState, Situation::NoValues), Misuse::NoValues);
  EXPECT_EQ(misuse_of(Call::WriteState, Situation::NoValues), Misuse::None);  // the way out
  EXPECT_EQ(misuse_of(Call::Step, Situation::ValuesLost), Misuse::ValuesLost);
  EXPECT_EQ(misuse_of(Call::ReadState, Situation::ValuesLost), Misuse::ValuesLost);
  EXPECT_EQ(misuse_of(Call::LoadCheckpoint, Situation::ValuesLost), Misuse::None);  // the way out
}

TEST(Misuse, HasAMessageThatSaysWhatToDo) {
  for (int i = 1; i < kMisuses; ++i) {
    const std::string message = message_of(static_cast<Misuse>(i), "save_checkpoint");
    EXPECT_THAT(message, HasSubstr(". ")) << "a sentence on what is wrong, and one on what to do";
    EXPECT_THAT(message, Not(HasSubstr("{}")));
  }
}

// FSDP_WRITE_DOCS=1 writes the page.
TEST(Misuse, IsTheTableOfTheErrorsPage) {
  const std::string path = std::string(FSDP_DOCS) + "/errors.md";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str(), heading = "## The order of a step\n\n", table = table_of_misuses();
  const size_t begin = page.find(heading) + heading.size(), end = page.find("\n\n", begin) + 1;
  ASSERT_NE(page.find(heading), std::string::npos);
  if (std::getenv("FSDP_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << page.substr(0, begin) << table << page.substr(end);
    return;
  }
  EXPECT_EQ(page.substr(begin, end - begin), table)
      << "write it by: FSDP_WRITE_DOCS=1 test_pure --gtest_filter='Misuse.*'";
}

}  // namespace
}  // namespace fsdp::schedule
