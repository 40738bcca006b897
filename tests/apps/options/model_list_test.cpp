#include "options/model_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "models/model_sizes.h"
#include "options/command_line.h"

namespace trainer {
namespace {

TEST(ModelList, HasALineForEachName) {
  const std::string list = model_list();
  for (const std::string& name : models::size_names()) EXPECT_THAT(list, testing::HasSubstr("\n" + name + " "));
  EXPECT_THAT(list,
              testing::HasSubstr("gpt2           GPT-2        124M      12    768     12    1,024      50,257\n"));
}

TEST(ModelList, LeavesOutModelsThatAreForPlansAlone) {
  EXPECT_THAT(model_list(), testing::Not(testing::HasSubstr("bert")));
  EXPECT_THAT(
      parse_command_line({"--text", "a", "--model", "bert-large"}).problems,
      testing::Contains("--model: bert-large is known to fsdp-plan alone; fsdp-train trains GPT-2 and Llama models."));
}

// A plan or a run without --context takes the model's.
TEST(ModelList, HasContextsThatCanBeGiven) {
  for (const std::string& name : models::size_names()) {
    const std::string context = std::to_string(models::config_of_size(name)->context);
    const CommandLine line = parse_command_line({"--dry-run", "--model", name, "--context", context});
    EXPECT_THAT(line.problems, testing::IsEmpty()) << name;
    EXPECT_EQ(line.options.model, *models::config_of_size(name)) << name;
  }
}

TEST(ModelList, FitsATerminal) {
  std::istringstream lines(model_list());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace trainer
