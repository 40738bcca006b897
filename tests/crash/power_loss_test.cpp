// The power fails after any call of a save: whatever of the unsynced is on the disk, there is a whole checkpoint, and
// the new one where the save had returned.
#include <gmock/gmock.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crash/disk_model.h"
#include "crash/scenes.h"
#include "support/temporary_folder.h"

namespace crash {
namespace {

namespace fs = std::filesystem;
using file_faults::Action;
using file_faults::Call;
using file_faults::Logged;

// The states after each call of a log, each of them once, with the names of their checkpoints.
class States {
 public:
  States(const Scene& scene, fs::path folder) : scene_(scene), folder_(std::move(folder)) {}

  void add(DiskModel& disk, const std::vector<Logged>& calls, bool returned, const std::string& about) {
    for (size_t at = 0; at <= calls.size(); ++at) {
      if (at > 0) {
        disk.apply(calls[at - 1]);
        returned = returned || calls[at - 1].call == Call::Mark;
      }
      for (const DiskModel::State& state : disk.states()) {
        if (seen_.emplace(state, returned).second) write(state, returned, about + std::to_string(at));
      }
    }
  }
  const std::vector<Found>& all() const { return all_; }

 private:
  void write(const DiskModel::State& state, bool returned, const std::string& about) {
    const fs::path folder = folder_ / std::to_string(all_.size());
    write_state(state, folder);
    all_.push_back(found(scene_, folder, returned, about + ", with\n" + text_of(state)));
  }

  const Scene& scene_;
  fs::path folder_;
  std::set<std::pair<DiskModel::State, bool>> seen_;
  std::vector<Found> all_;
};

Subject checked(Subject subject, const Scene& scene) {
  subject.keep = scene.keep;
  return subject;
}

class PowerLoss : public ::testing::TestWithParam<Scene> {};

int64_t after_every_call(const Scene& scene, const Subject& subject) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "saved";
  const std::string log = scratch / "log";
  prepare(scene, subject, folder);
  DiskModel disk(folder);
  const Ending ending = save(scene, subject, folder, {.log = log});
  EXPECT_TRUE(ending.saved()) << ending.output;
  States states(scene, scratch.path() / "states");
  states.add(disk, file_faults::read_log(log), /*returned=*/false, "the power fails after call ");
  EXPECT_GT(states.all().size(), 10u);  // or nothing is interposed
  EXPECT_EQ(problems_of(checked(subject, scene), states.all()), "");
  return static_cast<int64_t>(states.all().size());
}

TEST_P(PowerLoss, AfterAnyCallLeavesAWholeCheckpoint) {
  if (is_tried_by_two_ranks(GetParam())) after_every_call(GetParam(), {.ranks = 2});
  in_rounds(1, [](const Subject& subject) { return after_every_call(GetParam(), subject); });
}

// The bytes that the killed process left are in the kernel's memory when the next one saves.
int64_t after_a_kill(const Scene& scene, const Subject& subject, bool all) {
  const TemporaryFolder scratch;
  prepare(scene, subject, scratch.path() / "before");
  const std::vector<Logged> calls = calls_of(scene, subject, scratch.path());
  States states(scene, scratch.path() / "states");
  for (size_t at = 1; at <= calls.size(); ++at) {
    const Call call = calls[at - 1].call;
    const bool is_turning_point = call == Call::Rename || call == Call::Exchange || call == Call::RemoveDirectory;
    if (!all && !is_turning_point) continue;
    const fs::path folder = scratch.path() / std::to_string(at);
    fs::copy(scratch.path() / "before", folder, fs::copy_options::recursive);
    DiskModel disk(folder);
    const std::string first = scratch / (std::to_string(at) + ".first"),
                      second = scratch / (std::to_string(at) + ".second");
    const Ending killed =
        save(scene, subject, folder, {.action = Action::KillGroup, .at = static_cast<int64_t>(at), .log = first});
    for (const Logged& one : file_faults::read_log(first)) disk.apply(one);
    disk.end_of_processes();
    const Ending ending = save(scene, subject, folder, {.log = second});
    EXPECT_TRUE(ending.saved()) << ending.output;
    states.add(disk, file_faults::read_log(second), killed.returned(),
               "killed after call " + std::to_string(at) + ", saved again, and the power fails after call ");
  }
  EXPECT_FALSE(states.all().empty());
  EXPECT_EQ(problems_of(checked(subject, scene), states.all()), "");
  return static_cast<int64_t>(states.all().size());
}

TEST_P(PowerLoss, WhileTheSaveAfterAKilledOneIsUnderWayLeavesAWholeCheckpoint) {
  if (is_tried_fully(GetParam())) after_a_kill(GetParam(), {}, /*all=*/false);
}

// In long tests alone: some minutes.
TEST_P(PowerLoss, WhileTheSaveAfterAnyKilledOneIsUnderWayLeavesAWholeCheckpoint) {
  if (!is_long()) return;
  in_rounds(1, [](const Subject& subject) { return after_a_kill(GetParam(), {.ranks = subject.ranks}, /*all=*/true); });
}

INSTANTIATE_TEST_SUITE_P(Saving, PowerLoss, ::testing::ValuesIn(scenes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace crash
