// Printed lines of a run, where people compare two runs by eye: the same digits on any number of ranks, and nothing
// that a log file cannot hold.
#include <gmock/gmock.h>

#include <regex>

#include "apps/columns.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using testing::HasSubstr;
using testing::SizeIs;

using TrainPrinted = TrainProgram;

// "loss  5.5449  norm    1.234" of each step.
std::vector<std::string> printed_steps(const std::string& output) {
  const std::regex step("step +[0-9]+/[0-9]+  (loss +[^ ]+  norm +[^ ]+)  lr ");
  std::vector<std::string> columns;
  for (std::sregex_iterator found(output.begin(), output.end(), step), end; found != end; ++found) {
    columns.push_back((*found)[1]);
  }
  return columns;
}

TEST_F(TrainPrinted, HasTheSameDigitsOnAnyNumberOfRanks) {
  struct Found {
    std::vector<std::string> printed;
    std::vector<nlohmann::json> steps;
    std::string weights;
  };
  for (const std::string dtype : {"fp32", "bf16"}) {
    const auto train = [&](int ranks) -> Found {
      const std::string run = dtype + "-" + std::to_string(ranks);
      const Ending ending =
          tiny(run, "--ranks " + std::to_string(ranks) + " --micro-batches " + std::to_string(4 / ranks) +
                        " --param-dtype " + dtype + " --steps 8 --lr 0.01 --log-every 1 --validate-every 4 --export");
      EXPECT_EQ(ending.code, 0) << ending.output;
      return {printed_steps(ending.output), reproducible_steps_of(folder_ / run),
              read_bytes(folder_ / (run + "/model/model.safetensors"))};
    };
    const Found one = train(1);
    EXPECT_THAT(one.printed, SizeIs(8));
    EXPECT_THAT(one.steps, SizeIs(8));
    EXPECT_THAT(one.weights, testing::Not(testing::IsEmpty()));
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(dtype + " on " + std::to_string(ranks) + " ranks");
      const Found found = train(ranks);
      EXPECT_EQ(found.printed, one.printed);
      EXPECT_EQ(found.steps, one.steps);
      EXPECT_TRUE(found.weights == one.weights) << "the weights differ";
    }
  }
}

TEST_F(TrainPrinted, HasNoControlCharactersInAPipe) {
  const Ending ending = tiny(
      "run", "--ranks 2 --steps 6 --log-every 1 --validate-every 2 --save-every 2 --sample-every 2 --trace-steps 2..3");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(printed_steps(ending.output), SizeIs(6));
  for (const char* told : {"step 2: saved ", "step 4 writes: ", "step 3: traced steps 2 to 3"}) {
    EXPECT_THAT(ending.output, HasSubstr(told));
  }
  EXPECT_FALSE(has_control_characters(ending.output)) << ending.output;
}

}  // namespace
