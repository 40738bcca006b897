#include "fsdp-train/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Inputs, AllProblemsAreFoundAtOnce) {
  TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  Options options;
  options.text = folder / "none.txt";
  options.run = file + "/run";
  options.checkpoint = folder.path();
  EXPECT_THAT(read_inputs(options).problems, ElementsAre(HasSubstr("does not exist"), HasSubstr("has no manifest.json"),
                                                         HasSubstr("'" + file + "' is a file")));
}

TEST(Inputs, GoodOnesLeaveNoTrace) {
  TemporaryFolder folder;
  Options options;
  options.text = folder.write("text", std::string(500, 'x'));
  options.run = folder / "deep/run";
  const Inputs inputs = read_inputs(options);
  EXPECT_THAT(inputs.problems, IsEmpty());
  EXPECT_EQ(inputs.corpus.training->size(), 500);
  EXPECT_FALSE(std::filesystem::exists(folder / "deep"));
}

}  // namespace
}  // namespace trainer
