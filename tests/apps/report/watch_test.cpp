#include "report/watch.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>

#include "apps/report/sample_runs.h"
#include "files/file_lock.h"
#include "report/page.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kReload = "<body data-reload=";

class WatchReport : public testing::Test {
 protected:
  // Each time that something is told, the next action is taken.
  int watch(std::vector<std::function<void()>> actions) {
    WatchOptions options{.interval = 20ms};
    options.tell = [this, actions, next = size_t{0}](const std::string& text) mutable {
      told_.push_back(text);
      if (next < actions.size()) actions[next++]();
    };
    return watch_report({run_}, page_, options);
  }

  void lock() { lock_.emplace(run_ / "lock"); }
  std::string page() const { return read_bytes(page_); }

  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_ / "run";
  std::filesystem::path page_ = folder_ / "page.html";
  std::optional<fsdp::files::FileLock> lock_;
  std::vector<std::string> told_;
};

TEST_F(WatchReport, EndsAtOnceWhereNothingGoesOn) {
  write_sample_run(folder_.path(), "run", {.has_start = true, .end = EndStatus::Finished});
  EXPECT_EQ(watch({}), 0);
  EXPECT_THAT(page(), Not(HasSubstr(kReload)));
}

TEST_F(WatchReport, EndsWithTheRun) {
  write_sample_run(folder_.path(), "run", {.has_start = true});
  lock();
  EXPECT_EQ(watch({[this] {
              EXPECT_THAT(page(), HasSubstr(kReload));
              EXPECT_THAT(page(), HasSubstr("status running"));
              lock_.reset();
            }}),
            0);
  EXPECT_THAT(page(), Not(HasSubstr(kReload)));
  EXPECT_THAT(page(), HasSubstr("status broken-off"));
}

TEST_F(WatchReport, EndsWithASignalAndAPageThatStays) {
  write_sample_run(folder_.path(), "run", {.has_start = true});
  lock();
  EXPECT_EQ(watch({[] { raise(SIGTERM); }}), SIGTERM);
  EXPECT_THAT(page(), Not(HasSubstr(kReload)));
  EXPECT_THAT(page(), HasSubstr("status running"));
}

TEST_F(WatchReport, WaitsForTheFirstStep) {
  std::filesystem::create_directories(run_);
  lock();
  EXPECT_EQ(
      watch({[this] { write_sample_run(folder_.path(), "run", {.has_start = true}); }, [this] { lock_.reset(); }}), 0);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("waits for the first step"), HasSubstr("while a run goes on")));
}

TEST_F(WatchReport, IsAnErrorWhereThereIsNoRun) {
  std::filesystem::create_directories(run_);
  EXPECT_THROW(watch({}), fsdp::Error);
}

TEST_F(WatchReport, IsAnErrorWhereThePageCannotBeWritten) {
  write_sample_run(folder_.path(), "run", {.has_start = true});
  lock();
  page_ = folder_ / "no/folder/page.html";
  EXPECT_THROW(watch({}), fsdp::Error);
}

}  // namespace
}  // namespace trainer
