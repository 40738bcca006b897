// A save that is killed after any of its calls to the kernel: there is a whole checkpoint, with the bits of its step,
// and the next save takes the place and leaves nothing behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crash/scenes.h"
#include "support/temporary_folder.h"

namespace crash {
namespace {

namespace fs = std::filesystem;
using file_faults::Action;
using file_faults::Logged;
using file_faults::Plan;

class CrashPoints : public ::testing::TestWithParam<Scene> {
 protected:
  // After each call, all ranks at once, or the rank alone that made it. Returns how many were tried.
  static int64_t try_all(const Subject& subject) {
    const Scene& scene = GetParam();
    const TemporaryFolder scratch;
    prepare(scene, subject, scratch.path() / "before");
    const std::vector<Logged> calls = calls_of(scene, subject, scratch.path());
    std::vector<Action> actions{Action::KillGroup};
    if (subject.ranks > 1) actions.push_back(Action::KillProcess);
    std::vector<Found> all;
    for (size_t at = 1; at <= calls.size(); ++at) {
      for (const Action action : actions) {
        const fs::path folder = scratch.path() / (std::to_string(at) + (action == Action::KillGroup ? "-all" : "-one"));
        fs::copy(scratch.path() / "before", folder, fs::copy_options::recursive);
        const Ending ending = save(scene, subject, folder, {.action = action, .at = static_cast<int64_t>(at)});
        EXPECT_TRUE(ending.was_killed || ending.exit_code != 0) << "call " << at << " was not made";
        all.push_back(found(scene, folder, ending.returned(),
                            fmt_about(subject, at, calls[at - 1], action == Action::KillGroup)));
      }
    }
    Subject checked = subject;
    checked.keep = scene.keep;
    EXPECT_EQ(problems_of(checked, all), "");
    return static_cast<int64_t>(all.size());
  }

 private:
  static std::string fmt_about(const Subject& subject, size_t at, const Logged& call, bool whole_job) {
    return std::to_string(subject.ranks) + " ranks of width " + std::to_string(subject.width) + ", " +
           (whole_job ? "the job" : "one rank") + " killed after call " + std::to_string(at) + " (" +
           file_faults::name_of(call.call) + " " + call.path + ")";
  }
};

TEST_P(CrashPoints, OfOneRankLeaveAWholeCheckpoint) {
  in_rounds(1, [](const Subject& subject) { return try_all(subject); });
}

TEST_P(CrashPoints, OfTwoRanksLeaveAWholeCheckpoint) {
  if (is_tried_by_two_ranks(GetParam())) try_all({.ranks = 2});
}

INSTANTIATE_TEST_SUITE_P(Saving, CrashPoints, ::testing::ValuesIn(scenes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace crash
