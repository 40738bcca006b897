// Saves beside the steps that take longer than the steps between them: training waits, says so, and has the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "apps/fsdp-train/train_program.h"

namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A model with much to write and little to compute, saved after each step.
class TrainSaves : public TrainProgram {
 protected:
  Ending run(const std::string& name, const std::string& more) const {
    return tiny(name,
                "--ranks 2 --steps 20 --save-every 1 --keep 1 --width 256 --layers 1 --context 1 --batch 1 "
                "--sample-length 0 " +
                    more);
  }
  // Events that say so, by their steps.
  std::vector<std::pair<int64_t, std::string>> waits_of(const std::string& name) const {
    std::vector<std::pair<int64_t, std::string>> waits;
    for (const json& record : metrics_of(folder_ / name)) {
      const std::string event = record.value("event", "");
      if (event.starts_with("training waited ")) waits.emplace_back(record["step"], event);
    }
    return waits;
  }
};

TEST_F(TrainSaves, SayThatTrainingWaitedForTheOneBefore) {
  const Ending beside = run("beside", ""), sync = run("sync", "--save-sync");
  ASSERT_EQ(beside.code, 0) << beside.output;
  ASSERT_EQ(sync.code, 0) << sync.output;
  const auto waits = waits_of("beside");
  EXPECT_THAT(waits, Not(testing::IsEmpty()));
  for (const auto& [step, event] : waits) {
    EXPECT_LT(step, 20);  // nothing comes after the last one, and nothing is said of it
    EXPECT_THAT(event, ContainsRegex(fmt::format("^training waited [0-9.e-]+ s for the checkpoint of step {} before it "
                                                 "began the next one$",
                                                 step - 1)));
    EXPECT_THAT(beside.output, HasSubstr(fmt::format("step {}: {}\n", step, event)));
  }
  EXPECT_THAT(sync.output, Not(HasSubstr("training waited")));
  EXPECT_EQ(events_of(folder_ / "beside", "checkpoint").size(), 20u);  // none was left out
  EXPECT_EQ(reproducible_steps_of(folder_ / "beside"), reproducible_steps_of(folder_ / "sync"));
  for (const char* shard : {"shard-00001-of-00002.safetensors", "shard-00002-of-00002.safetensors"}) {
    const std::string file = std::string("/step-20/") + shard;
    EXPECT_TRUE(read_bytes(folder_ / ("beside" + file)) == read_bytes(folder_ / ("sync" + file))) << shard;
  }
}

}  // namespace
