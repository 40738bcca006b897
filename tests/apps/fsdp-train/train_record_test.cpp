// Records that a run leaves behind: the same when it was killed in between.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <random>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Of those that were complete when the job was killed.
std::string newest_checkpoint(const std::string& run) {
  std::string newest;
  int64_t highest = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".partial") != std::string::npos) continue;
    const int64_t step = name.starts_with("step-") ? std::atoll(name.c_str() + 5) : 0;
    if (step > highest && fs::exists(entry.path() / "manifest.json")) newest = entry.path().string(), highest = step;
  }
  return newest;
}

TEST_F(TrainProgram, LeavesTheSameRecordsWhenItIsKilledAtARandomStep) {
  const std::string job = "--ranks 2 --steps 400 --save-every 5 --validate-every 7";
  ASSERT_EQ(tiny("whole", job).code, 0);
  const size_t killed_after = 6 + std::random_device()() % 200;
  {
    Job killed(tiny_arguments("killed", job), folder_ / "killed", killed_after);
    EXPECT_NE(killed.end_by(SIGKILL, killed.launcher()).code, 0);
  }
  const std::string checkpoint = newest_checkpoint(folder_ / "killed");
  ASSERT_FALSE(checkpoint.empty()) << "killed after " << killed_after;
  const Ending resumed = tiny("killed", job + " --resume auto");
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("goes on from " + checkpoint));
  const std::vector<json> whole = reproducible_steps_of(folder_ / "whole");
  ASSERT_EQ(whole.size(), 400u);
  EXPECT_EQ(reproducible_steps_of(folder_ / "killed"), whole) << "killed after " << killed_after;
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

TEST_F(TrainProgram, RecordsItsData) {
  folder_.write("texts/a.txt", read_bytes(text_) + "in the end\r\n");
  folder_.write("texts/.hidden/b.txt", "not this");
  folder_.write("texts/c", std::string(10, '\0'));
  const Ending ending = tiny("run", "--ranks 2 --steps 1 --vocabulary 300 --text " + (folder_ / "texts"));
  ASSERT_EQ(ending.code, 0) << ending.output;
  for (const char* told : {"skipped 1 hidden file or folder, .hidden\n", "skipped 1 file that is no text, c\n",
                           "held back the last 5 % for validation\n", "of which the tokenizer has 256\n"}) {
    EXPECT_THAT(ending.output, HasSubstr(told));
  }
  const std::vector<json> records = events_of(folder_ / "run", "data");
  ASSERT_EQ(records.size(), 1u);
  json record = records[0];
  const int64_t tokens = record["training_tokens"].get<int64_t>() + record["validation_tokens"].get<int64_t>();
  EXPECT_EQ(tokens, static_cast<int64_t>(read_bytes(folder_ / "texts/a.txt").size()));
  for (const char* counted : {"training_tokens", "validation_tokens"}) record.erase(counted);
  EXPECT_EQ(record, json::parse(R"({"step":0,"event":"data","seconds":0.0,"held_back":0.05,"tokenizer":"bytes",)"
                                R"("vocabulary":256,"hidden":1,"binary":1,"empty":0,"unreadable":0,"crlf":0})"));
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
