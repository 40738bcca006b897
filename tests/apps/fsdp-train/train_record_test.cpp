// What fsdp-train leaves behind of a run: the same when it was killed in between.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <random>

#include "apps/fsdp-train/train_program.h"
#include "metrics/fields.h"

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

// The records, without the fields that time and memory decide.
std::vector<json> reproducible(std::vector<json> records) {
  std::erase_if(records, [](const json& record) { return record.contains("event"); });  // some are of times
  for (json& record : records) {
    for (const trainer::Field& field : trainer::step_fields()) {
      if (!field.reproducible) record.erase(std::string(field.name));
    }
  }
  return records;
}

// Starts fsdp-train, and kills it with all its ranks when it has done so many steps.
void run_until_killed(const std::string& arguments, const std::string& run, const std::string& pid_file, size_t steps) {
  auto ending = std::async(std::launch::async, [&] {
    return run_command("sh -c 'echo $$ > " + pid_file + "; exec " FSDP_TRAIN_PROGRAM " " + arguments + "'");
  });
  const auto lines = [&] {
    const std::string text = read_bytes(run + "/metrics.jsonl");
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  };
  while (lines() < steps && ending.wait_for(1ms) != std::future_status::ready) continue;
  pid_t launcher = 0;
  std::ifstream(pid_file) >> launcher;
  ASSERT_GT(launcher, 0);
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  EXPECT_NE(ending.get().code, 0);
}

std::string newest_checkpoint(const std::string& run) {
  std::string newest;
  int64_t highest = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    const int64_t step = name.starts_with("step-") ? std::atoll(name.c_str() + 5) : 0;
    if (step > highest && fs::exists(entry.path() / "manifest.json")) newest = entry.path().string(), highest = step;
  }
  return newest;
}

TEST_F(TrainProgram, LeavesTheSameRecordsWhenItIsKilledAtARandomStep) {
  const std::string job = "--ranks 2 --steps 400 --save-every 5 --validate-every 7";
  ASSERT_EQ(tiny("whole", job).code, 0);
  const size_t killed_after = 6 + std::random_device()() % 200;
  run_until_killed(tiny_arguments("killed", job), folder_ / "killed", folder_ / "pid", killed_after);
  const std::string checkpoint = newest_checkpoint(folder_ / "killed");
  ASSERT_FALSE(checkpoint.empty()) << "killed after " << killed_after;
  const Ending resumed = tiny("killed", job + " --checkpoint " + checkpoint);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const std::vector<json> whole = reproducible(metrics_of(folder_ / "whole"));
  ASSERT_EQ(whole.size(), 400u);
  EXPECT_EQ(reproducible(metrics_of(folder_ / "killed")), whole) << "killed after " << killed_after;
  const auto event_files =
      std::distance(fs::directory_iterator(folder_ / "killed/tensorboard"), fs::directory_iterator{});
  EXPECT_EQ(event_files, 2);
}

TEST_F(TrainProgram, RecordsWhatAStepTookAndHeld) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 3").code, 0);
  const std::vector<json> records = metrics_of(folder_ / "run");
  ASSERT_EQ(records.size(), 3u);
  for (const json& record : records) {
    EXPECT_EQ(record["tokens"], record["step"].get<int64_t>() * 2 * 2 * 16);  // ranks, sequences, bytes
    EXPECT_GT(record["step_seconds"], 0);
    EXPECT_GE(record["peak_memory_bytes"], record["memory_bytes"]);
    EXPECT_GT(record["memory"]["parameters"], 0);
    EXPECT_GT(record["memory"]["optimizer"], 0);
  }
}

TEST_F(TrainProgram, ReportsOnARun) {
  ASSERT_EQ(tiny("run", "--ranks 1 --steps 3").code, 0);
  const Ending ending = run_train("report " + (folder_ / "run"));
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(read_bytes(folder_ / "run/report.html"), HasSubstr("<title>run</title>"));
  const Ending none = run_train("report " + (folder_ / "none") + " " + (folder_ / "never") + " --colour");
  EXPECT_EQ(none.code, 2);
  for (const char* problem : {"none' is no folder", "never' is no folder", "'--colour' is no option"}) {
    EXPECT_THAT(none.output, HasSubstr(problem));
  }
  EXPECT_EQ(run_train("report " + folder_.path().string()).code, 1);  // a folder of no run
  EXPECT_EQ(run_train("report " + (folder_ / "run") + " --output " + (folder_ / "no/folder/page.html")).code, 1);
}

}  // namespace
