// What keeps the folder of one run from being taken for another's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "fsdp-train/inputs.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunFolder : public testing::Test {
 protected:
  RunFolder() {
    options_.text = folder_.write("text", std::string(500, 'x'));
    options_.checkpoint = std::filesystem::path(folder_.write("first/step-3/manifest.json", "{}")).parent_path();
    options_.run = folder_ / "second";
  }

  TemporaryFolder folder_;
  Options options_;
};

TEST_F(RunFolder, WithTheRecordOfAnotherRunIsRefused) {
  folder_.write("second/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("is the record of another run")));
  options_.resume = std::exchange(options_.checkpoint, "");
  EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("is the record of another run")));
}

TEST_F(RunFolder, WithoutARecordIsTaken) {
  EXPECT_THAT(read_inputs(options_).problems, IsEmpty());
  folder_.write("second/metrics.jsonl", "");
  EXPECT_THAT(read_inputs(options_).problems, IsEmpty());
}

TEST_F(RunFolder, OfTheCheckpointItselfIsTaken) {
  folder_.write("first/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  options_.run = folder_ / "first/../first/";
  EXPECT_THAT(read_inputs(options_).problems, IsEmpty());
  options_.checkpoint += "/";
  EXPECT_THAT(read_inputs(options_).problems, IsEmpty());
}

}  // namespace
}  // namespace trainer
