// Checks that keep the folder of one run from being taken for another's.
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
  RunOptions options_;
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

TEST_F(RunFolder, WithFilesThatARunWouldWriteOverIsRefused) {
  options_.checkpoint = "";
  for (const std::string name : {"config.json", "config.toml", "tokenizer.json", "tokenizer.model", "sample.txt",
                                 "model/config.json", "model/model.safetensors"}) {
    options_.run = folder_ / ("of-" + name);
    folder_.write("of-" + name + "/" + name, "precious");
    EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("holds a " + name))) << name;
    folder_.write("of-" + name + "/metrics.jsonl", "");  // a run's then
    EXPECT_THAT(read_inputs(options_).problems, IsEmpty()) << name;
  }
}

TEST_F(RunFolder, WithALockThatIsNoRunsIsRefused) {
  options_.checkpoint = "";
  for (const char* left : {"", "pro", "process 7 on earth"}) {
    folder_.write("second/lock", left);
    EXPECT_THAT(read_inputs(options_).problems, IsEmpty()) << left;
  }
  folder_.write("second/lock", "precious");
  EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("lock' is no lock of a run")));
}

TEST_F(RunFolder, AmongTheTextIsRefused) {
  options_.checkpoint = "";
  folder_.write("books/one", std::string(500, 'x'));
  options_.text = folder_ / "books";
  for (const char* run : {"books/run", "books/deep/run", "books", "other/../books/run"}) {
    options_.run = folder_ / run;
    EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("where every file is text"))) << run;
  }
  options_.run = folder_ / "books-run";
  EXPECT_THAT(read_inputs(options_).problems, IsEmpty());
}

TEST_F(RunFolder, ThatIsAFileOrALinkToNowhereIsRefused) {
  options_.checkpoint = "";
  options_.run = options_.text;
  EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("is a file")));
  std::filesystem::create_symlink("loop", folder_ / "loop");
  std::filesystem::create_symlink("nowhere", folder_ / "dangling");
  for (const char* run : {"loop", "loop/run", "dangling"}) {
    options_.run = folder_ / run;
    EXPECT_THAT(read_inputs(options_).problems, ElementsAre(HasSubstr("a symbolic link that leads nowhere"))) << run;
  }
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
