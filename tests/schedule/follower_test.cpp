// A rank without a batch: it follows the others through their forward and backward.
#include <gmock/gmock.h>

#include "schedule/rank_report.h"
#include "schedule/script.h"

namespace fsdp::schedule {
namespace {

using ::testing::ElementsAre;

// One of two ranks, of which the other has a batch. Messages are answered by the peer's reports, one after the other.
class Follower : public ScriptedRank {
 public:
  explicit Follower(const Facts& facts, Limits limits = {}) : ScriptedRank(facts, limits) {}

  void answer_by(std::vector<std::function<void(RankReport&)>> reports) {
    script.peers = [this, reports = std::move(reports)](const Words& own) {
      if (own.size() == 2) return std::vector{own, Words{1, own[1]}};  // asks whether any rank has a batch
      RankReport report = unpack_report(own);
      reports.at(answered_++)(report);
      Words theirs(own.size());
      pack(report, theirs);
      return std::vector{own, theirs};
    };
  }
  void follow() {
    EXPECT_TRUE(driver.any_rank_has_batch(false));
    script.take();
    driver.backward_without_batch();
  }

 private:
  size_t answered_ = 0;
};

void end_backward(RankReport& report) { report.activity = RankActivity::EndsBackward; }

const char kFollowed[] = "all ranks: takes part in a step in which some ranks have no batch";

// Peers end their reductions while their backward runs, and so need this rank's before its end.
TEST(Follower, RepeatsTheReductionsOfItsLastBackwardAtOnce) {
  Follower rank(facts_in_shared_memory(3), {.full_until = FullUntil::EndOfBackward});
  rank.micro_batch();
  rank.answer_by({end_backward});
  rank.follow();
  EXPECT_THAT(only(rank.script.take(), {"reduce ", "all ranks"}),
              ElementsAre("reduce c", "reduce b", "reduce a", kFollowed));
}

TEST(Follower, TakesPartInGathersAndReductionsAsItHearsOfThem) {
  Follower rank(facts_of_units(3));
  rank.answer_by({[](RankReport& report) {
                    report.activity = RankActivity::Gathers;
                    report.unit = 1;
                  },
                  [](RankReport& report) {
                    report.activity = RankActivity::Gathers;
                    report.unit = 0;
                    report.counts[2] = {.reductions = 1, .lag = 0, .gradients = 2};
                  },
                  [](RankReport& report) {
                    end_backward(report);
                    for (UnitCount& unit : report.counts) unit = {.reductions = 1, .lag = 0, .gradients = 2};
                  }});
  rank.follow();
  EXPECT_THAT(only(rank.script.take(), {"gather", "reduce ", "all ranks"}),
              ElementsAre(kFollowed, "gather for peers b in 0", kFollowed, "gather for peers a in 0", "reduce c",
                          kFollowed, "reduce a", "reduce b"));
}

}  // namespace
}  // namespace fsdp::schedule
