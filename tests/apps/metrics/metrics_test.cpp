#include "metrics/metrics.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/temporary_folder.h"

namespace trainer {
namespace {

using nlohmann::json;
using testing::ElementsAre;

StepRecord record_of(int64_t step, double loss) { return {.step = step, .loss = loss, .grad_norm = 1, .lr = 0.1}; }

std::vector<json> records_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> records;
  for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
  return records;
}

TEST(Metrics, AreOneObjectAStep) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0);
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

TEST(Metrics, OfAResumedRunGoOnFromItsCheckpoint) {
  TemporaryFolder folder;
  {
    MetricsFile metrics(folder / "m", 0);
    for (int64_t step = 1; step <= 5; ++step) metrics.write(record_of(step, 10.0 - static_cast<double>(step)));
  }
  std::ofstream(folder / "m", std::ios::app) << "{\"step\": 6, \"lo";  // cut off by a crash
  MetricsFile metrics(folder / "m", 3);
  metrics.write(record_of(4, 0.5));
  EXPECT_THAT(metrics.losses(), ElementsAre(9.0, 8.0, 7.0, 0.5));
  EXPECT_EQ(metrics.first_step(), 1);
  EXPECT_EQ(records_of(folder / "m").size(), 4u);
}

TEST(Metrics, OfANewRunReplaceOlderOnes) {
  TemporaryFolder folder;
  folder.write("m", "{\"step\":1,\"loss\":1}\n");
  MetricsFile metrics(folder / "m", 0);
  EXPECT_TRUE(records_of(folder / "m").empty());
}

TEST(Metrics, OfADivergedRunAreStillJson) {
  TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0);
  metrics.write(record_of(1, std::nan("")));
  EXPECT_TRUE(records_of(folder / "m")[0]["loss"].is_null());
}

TEST(Metrics, ThatCannotBeWrittenAreAnError) {
  EXPECT_THROW(MetricsFile("/nonexistent/metrics.jsonl", 0), fsdp::Error);
  MetricsFile full("/dev/full", 0);
  EXPECT_THROW(full.write(record_of(1, 1.0)), fsdp::Error);
}

}  // namespace
}  // namespace trainer
