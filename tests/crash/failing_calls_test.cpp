// A call of a save fails: the save is refused on every rank and the older checkpoint is whole, or it is done. Nothing
// is left behind, and the next save goes well.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "crash/scenes.h"
#include "support/temporary_folder.h"

namespace crash {
namespace {

namespace fs = std::filesystem;
using file_faults::Action;
using file_faults::Call;
using file_faults::Logged;

struct Fault {
  std::string name;
  Action action;
  int error;

  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"AFullDisk", Action::FillFromHere, ENOSPC}, {"AQuotaThatIsUsedUp", Action::Fail, EDQUOT},
      {"AnErrorOfTheDevice", Action::Fail, EIO},   {"ADeviceThatIsGone", Action::FailFromHere, EIO},
      {"NoPermission", Action::Fail, EACCES},      {"AFileSystemThatBecomesReadOnly", Action::FailFromHere, EROFS},
      {"AShortWrite", Action::WriteHalf, 0}};
  return all;
}

bool tidies(const Logged& call) { return call.call == Call::Remove || call.call == Call::RemoveDirectory; }

// The calls before the new checkpoint gets its place: from then on nobody knows which of them the disk has there, and
// neither is removed where a call fails.
size_t calls_before_turning_point(const std::vector<Logged>& calls) {
  const auto turns = [](const Logged& one) { return one.call == Call::Rename || one.call == Call::Exchange; };
  return static_cast<size_t>(std::ranges::find_if(calls, turns) - calls.begin());
}

std::vector<std::string> sorted_names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class FailingCalls : public ::testing::TestWithParam<Fault> {
 protected:
  // In each call of a save in turn. Returns how many there were.
  static int64_t try_all(const Scene& scene, const Subject& subject) {
    const TemporaryFolder scratch;
    prepare(scene, subject, scratch.path() / "before");
    const std::vector<Logged> calls = calls_of(scene, subject, scratch.path());
    std::vector<Found> all;
    for (size_t at = 1; at <= calls.size(); ++at) {
      const std::string about = GetParam().name + " at call " + std::to_string(at) + " of " +
                                std::to_string(subject.ranks) + " ranks (" + file_faults::name_of(calls[at - 1].call) +
                                " " + calls[at - 1].path + ")";
      SCOPED_TRACE(scene.name + ", " + about);
      const fs::path folder = scratch.path() / std::to_string(at);
      fs::copy(scratch.path() / "before", folder, fs::copy_options::recursive);
      const Ending ending =
          save(scene, subject, folder,
               {.action = GetParam().action, .at = static_cast<int64_t>(at), .error = GetParam().error});
      EXPECT_FALSE(ending.was_killed) << ending.output;
      EXPECT_EQ(ending.exit_code, 0) << ending.output;
      EXPECT_TRUE(ending.saved() || ending.refused()) << ending.outcomes[0] << "\n" << ending.outcomes.back();
      if (GetParam().action == Action::WriteHalf) EXPECT_TRUE(ending.saved()) << ending.outcomes[0];
      if (ending.refused()) expect_message(ending, folder);
      // Files that cannot be removed stay until the next save.
      const bool could_tidy =
          at <= calls_before_turning_point(calls) &&
          (GetParam().action == Action::FillFromHere || (GetParam().action == Action::Fail && !tidies(calls[at - 1])));
      if (could_tidy && ending.refused() && !scene.older.empty()) expect_as_before(scratch.path(), scene, folder);
      all.push_back(found(scene, folder, ending.saved(), about));
    }
    Subject checked = subject;
    checked.keep = scene.keep;
    EXPECT_EQ(problems_of(checked, all), "");
    return static_cast<int64_t>(all.size());
  }

  // The one that is tried everywhere in short tests, too.
  static bool is_kind_for_all() { return GetParam().name == "AnErrorOfTheDevice"; }

 private:
  // The folder that failed may be a folder above the run's.
  static void expect_message(const Ending& ending, const fs::path& folder) {
    const auto says = [&](const std::string& one) {
      return one.find(folder.string()) != std::string::npos &&
             one.find(std::strerror(GetParam().error)) != std::string::npos;
    };
    EXPECT_TRUE(std::ranges::all_of(ending.outcomes, says)) << ending.outcomes[0];
  }
  static void expect_as_before(const fs::path& scratch, const Scene& scene, const fs::path& folder) {
    const fs::path run = fs::path(scene.older).parent_path();
    EXPECT_EQ(sorted_names_in(folder / run), sorted_names_in(scratch / "before" / run));
  }
};

TEST_P(FailingCalls, OfASaveLeaveAWholeCheckpointAndNothingElse) {
  in_rounds(1, [](const Subject& subject) {
    int64_t cases = 0;
    for (const Scene& scene : scenes()) {
      if (is_tried_fully(scene) || is_kind_for_all()) cases += try_all(scene, subject);
    }
    return cases;
  });
}

TEST_P(FailingCalls, OfOneRankAreToldToAll) {
  if (is_long() || is_kind_for_all()) try_all(scenes()[0], {.ranks = 2});
}

INSTANTIATE_TEST_SUITE_P(Saving, FailingCalls, ::testing::ValuesIn(faults()),
                         [](const auto& info) { return info.param.name; });

// A folder that somebody removes while a save is under way.
TEST(RemovedFolder, IsAnErrorOrASaveAndTheNextSaveGoesWell) {
  in_rounds(1, [](const Subject& subject) {
    const Scene& scene = scenes()[0];
    const TemporaryFolder scratch;
    prepare(scene, subject, scratch.path() / "before");
    const std::vector<Logged> calls = calls_of(scene, subject, scratch.path());
    std::vector<Found> all;
    for (size_t at = 1; at <= calls.size(); ++at) {
      const fs::path folder = scratch.path() / std::to_string(at);
      fs::copy(scratch.path() / "before", folder, fs::copy_options::recursive);
      const Ending ending =
          save(scene, subject, folder, {.action = Action::RemoveFolder, .at = static_cast<int64_t>(at)});
      EXPECT_FALSE(ending.was_killed) << ending.output;
      EXPECT_TRUE(ending.saved() || ending.refused()) << "call " << at << ": " << ending.outcomes[0];
      Found after = found(scene, folder, ending.saved(), "the folder removed before call " + std::to_string(at));
      after.may_be_none = true;
      after.names = {"step-2"};
      all.push_back(after);
    }
    EXPECT_EQ(problems_of(subject, all), "");
    return static_cast<int64_t>(all.size());
  });
}

}  // namespace
}  // namespace crash
