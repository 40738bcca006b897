#include "metrics/metrics.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// While it lives, no file of this process grows beyond so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  sighandler_t handler_;
  rlimit before_{};
};

// Ignores all that a metrics file tells.
const MetricsFile::Tell kQuietly = [](const std::string&) {};

StepRecord record_of(int64_t step, double loss) { return {.step = step, .loss = loss, .grad_norm = 1, .lr = 0.1}; }

std::vector<json> records_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> records;
  for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
  return records;
}

TEST(Metrics, AreOneObjectAStep) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0, kQuietly);
  metrics.write(record_of(1, 2.0));
  StepRecord validated = record_of(2, 1.0);
  validated.validation_loss = 1.5;
  metrics.write(validated);
  const std::vector<json> records = records_of(folder / "m");
  ASSERT_EQ(records.size(), 2u);
  for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens_per_second", "memory_bytes", "seconds"}) {
    EXPECT_TRUE(records[0].contains(key)) << key;
  }
  EXPECT_FALSE(records[0].contains("validation_loss"));
  EXPECT_EQ(records[1]["validation_loss"], 1.5);
  EXPECT_FALSE(records[1].contains("skipped"));
  EXPECT_THAT(metrics.losses(), ElementsAre(2.0, 1.0));
}

void write_five(const std::string& path) {
  MetricsFile metrics(path, 0, kQuietly);
  for (int64_t step = 1; step <= 5; ++step) metrics.write(record_of(step, 10.0 - static_cast<double>(step)));
}

TEST(Metrics, OfAResumedRunGoOnFromItsCheckpoint) {
  TemporaryFolder folder;
  write_five(folder / "m");
  const std::string before = read_bytes(folder / "m");
  MetricsFile metrics(folder / "m", 3, kQuietly);
  metrics.write(record_of(4, 0.5));
  EXPECT_THAT(metrics.losses(), ElementsAre(9.0, 8.0, 7.0, 0.5));
  EXPECT_EQ(metrics.first_step(), 1);
  EXPECT_EQ(records_of(folder / "m").size(), 4u);
  const std::string after = read_bytes(folder / "m");
  const size_t kept = before.find("{\"step\":4");
  EXPECT_EQ(after.substr(0, kept), before.substr(0, kept));
}

TEST(Metrics, AreAllThereAgainWhereTheFileWasRemoved) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0, kQuietly);
  for (int64_t step = 1; step <= 1000; ++step) metrics.write(record_of(step, 1));
  const std::string before = read_bytes(folder / "m");
  EXPECT_TRUE(metrics.is_in_place());
  std::filesystem::remove(folder / "m");
  EXPECT_FALSE(metrics.is_in_place());
  metrics.restore();
  EXPECT_TRUE(metrics.is_in_place());
  EXPECT_EQ(read_bytes(folder / "m"), before);
  metrics.write(record_of(1001, 1));
  EXPECT_EQ(records_of(folder / "m").size(), 1001u);
}

TEST(Metrics, GoOnInACopyOfTheFile) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0, kQuietly);
  metrics.write(record_of(1, 1));
  std::filesystem::copy_file(folder / "m", folder / "copy");
  metrics.write(record_of(2, 1));
  std::filesystem::rename(folder / "copy", folder / "m");
  EXPECT_FALSE(metrics.is_in_place());
  EXPECT_FALSE(metrics.is_replaced());
  metrics.restore();
  metrics.write(record_of(3, 1));
  EXPECT_EQ(records_of(folder / "m").size(), 3u);
}

TEST(Metrics, OfAnotherFileAreNotWrittenOver) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0, kQuietly);
  metrics.write(record_of(1, 1));
  std::filesystem::rename(folder / "m", folder / "moved");
  folder.write("m", "of another run");
  EXPECT_FALSE(metrics.is_in_place());
  EXPECT_THAT(fsdp::testing::message_of<fsdp::Error>([&] { metrics.restore(); }),
              testing::HasSubstr("cannot be written again: another file is there"));
  EXPECT_TRUE(metrics.is_replaced());
  metrics.write(record_of(2, 1));
  EXPECT_EQ(read_bytes(folder / "m"), "of another run");
  EXPECT_EQ(records_of(folder / "moved").size(), 2u);
  metrics.restore_beside();
  EXPECT_EQ(records_of(folder / "m").size(), 2u);
  EXPECT_EQ(read_bytes(folder / "m.changed-1"), "of another run");
}

// They are recorded when they are committed.
TEST(Metrics, OfCheckpointsMayComeAfterLaterSteps) {
  TemporaryFolder folder;
  {
    MetricsFile metrics(folder / "m", 0, kQuietly);
    for (int64_t step = 1; step <= 3; ++step) metrics.write(record_of(step, 1));
    metrics.write(CheckpointRecord{.step = 2, .folder = "step-2"});
    metrics.write(record_of(4, 1));
    metrics.write(CheckpointRecord{.step = 4, .folder = "step-4"});
    metrics.write(Event{.step = 4, .text = "stops early"});
  }
  std::vector<std::string> told;
  MetricsFile metrics(folder / "m", 2, [&](const std::string& text) { told.push_back(text); });
  metrics.write(record_of(3, 2));
  EXPECT_THAT(told, ElementsAre());
  std::vector<int64_t> steps;
  for (const json& record : records_of(folder / "m")) steps.push_back(record["step"]);
  EXPECT_THAT(steps, ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(records_of(folder / "m")[2]["folder"], "step-2");
}

// A run may be killed at any byte of a line.
TEST(Metrics, CutOffInALineLoseThatLineAlone) {
  TemporaryFolder folder;
  write_five(folder / "whole");
  const std::string whole = read_bytes(folder / "whole");
  const size_t last_line = whole.find("{\"step\":5");
  for (size_t size = last_line; size <= whole.size(); ++size) {
    folder.write("m", whole.substr(0, size));
    std::vector<std::string> told;
    MetricsFile metrics(folder / "m", 5, [&](const std::string& text) { told.push_back(text); });
    metrics.write(record_of(6, 0.5));
    const bool is_torn = size > last_line && size < whole.size() - 1;
    EXPECT_EQ(told.size(), is_torn ? 1u : 0u) << size;
    if (is_torn) {
      EXPECT_THAT(told.at(0), HasSubstr("line 5: cut off"));
    }
    const bool is_whole = size >= whole.size() - 1;  // but for its end
    EXPECT_EQ(records_of(folder / "m").size(), is_whole ? 6u : 5u) << size;
    EXPECT_EQ(metrics.losses().back(), 0.5);
  }
}

TEST(Metrics, DamagedInTheMiddleKeepAllTheRest) {
  TemporaryFolder folder;
  folder.write("m", "{\"step\":1,\"loss\":1}\n\xff[[[\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":3}\n");
  std::vector<std::string> told;
  MetricsFile metrics(folder / "m", 2, [&](const std::string& text) { told.push_back(text); });
  EXPECT_THAT(metrics.losses(), ElementsAre(1.0, 2.0));
  EXPECT_THAT(told, ElementsAre(HasSubstr("line 2: not a record")));
  EXPECT_EQ(read_bytes(folder / "m"), "{\"step\":1,\"loss\":1}\n\xff[[[\n{\"step\":2,\"loss\":2}\n");
}

TEST(Metrics, KeepEventsWithTheirSteps) {
  TemporaryFolder folder;
  {
    MetricsFile metrics(folder / "m", 0, kQuietly);
    metrics.write(record_of(1, 3.0));
    metrics.write(Event{.step = 1, .text = "checkpoint saved", .seconds = 0.5});
    metrics.write(record_of(2, 2.0));
    metrics.write(Event{.step = 2, .text = "slow rank 1", .seconds = 1.5});
  }
  const MetricsFile metrics(folder / "m", 1, kQuietly);
  EXPECT_THAT(metrics.losses(), ElementsAre(3.0));
  EXPECT_EQ(records_of(folder / "m")[1], json::parse(R"({"step":1,"event":"checkpoint saved","seconds":0.5})"));
  EXPECT_EQ(records_of(folder / "m").size(), 2u);
}

TEST(Metrics, OfANewRunSetOlderOnesAside) {
  TemporaryFolder folder;
  for (const std::string number : {"1", "2"}) {
    const std::string older = "{\"step\":1,\"loss\":" + number + "}\n";
    folder.write("m", older);
    std::vector<std::string> told;
    MetricsFile metrics(folder / "m", 0, [&](const std::string& text) { told.push_back(text); });
    EXPECT_TRUE(records_of(folder / "m").empty());
    EXPECT_EQ(read_bytes(folder / ("m.before-" + number)), older);
    EXPECT_THAT(told, ElementsAre(HasSubstr("m.before-" + number)));
  }
}

TEST(Metrics, OfADivergedRunAreStillJson) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0, kQuietly);
  metrics.write(record_of(1, std::nan("")));
  EXPECT_TRUE(records_of(folder / "m")[0]["loss"].is_null());
}

TEST(Metrics, ThatCannotBeOpenedAreAnError) {
  EXPECT_THROW(MetricsFile("/nonexistent/metrics.jsonl", 0, kQuietly), fsdp::Error);
}

TEST(Metrics, OnAFullDiskAreToldOnceAndStopNothing) {
  std::vector<std::string> told;
  MetricsFile full("/dev/full", 0, [&](const std::string& text) { told.push_back(text); });
  for (int64_t step = 1; step <= 3; ++step) full.write(record_of(step, 1.0));
  EXPECT_THAT(told, ElementsAre(HasSubstr("No space left on device. Training goes on")));
  EXPECT_EQ(full.losses().size(), 3u);
}

// A limit on the size of files stands for the disk: the system writes what fits, and refuses the rest.
TEST(Metrics, AreCompleteWhenTheDiskHasRoomAgain) {
  TemporaryFolder folder;
  std::vector<std::string> told;
  MetricsFile metrics(folder / "m", 0, [&](const std::string& text) { told.push_back(text); });
  metrics.write(record_of(1, 1.0));
  {
    const FileSizeLimit limit(read_bytes(folder / "m").size() + 10);
    metrics.write(record_of(2, 1.0));
    metrics.write(record_of(3, 1.0));
  }
  metrics.write(record_of(4, 1.0));
  EXPECT_THAT(told, ElementsAre(HasSubstr("cannot be written"), HasSubstr("complete again")));
  const std::vector<json> records = records_of(folder / "m");
  ASSERT_EQ(records.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(records[i]["step"], i + 1);
}

}  // namespace
}  // namespace trainer
