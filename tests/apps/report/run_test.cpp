#include "report/run.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "apps/report/sample_runs.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

const std::string kStep = "{\"step\":1,\"loss\":2}\n";

TEST(RunFolder, IsItsMetricsConfigurationAndSamples) {
  TemporaryFolder folder;
  const RunFolder run = read_run(write_sample_run(folder.path(), "first") / "");  // with a slash at its end
  EXPECT_EQ(run.name, "first");
  EXPECT_EQ(run.metrics.steps.size(), 300u);
  EXPECT_THAT(run.configuration,
              ElementsAre(Pair("lr", "0.001"), Pair("model.width", "64"), Pair("text", "bible.txt")));
  ASSERT_THAT(run.samples, SizeIs(1));
  EXPECT_EQ(run.samples[0].text, "And God said,\n\nLet there be light");
  EXPECT_THAT(run.metrics.problems, IsEmpty());
}

TEST(RunFolder, NeedsNothingButMetrics) {
  TemporaryFolder folder;
  folder.write("run/metrics.jsonl", kStep);
  const RunFolder run = read_run(folder / "run");
  EXPECT_THAT(run.configuration, IsEmpty());
  EXPECT_THAT(run.samples, IsEmpty());
  EXPECT_THAT(run.metrics.problems, ElementsAre(HasSubstr("config.json' cannot be read")));
  EXPECT_THROW(read_run(folder / "none"), fsdp::Error);
}

TEST(RunFolder, HasItsSamplesInTheOrderOfTheirNumbers) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", kStep);
  for (const char* name :
       {"sample.txt", "sample-100.txt", "sample-20.txt", "sample-0003.txt", "samples.md", "other.txt"}) {
    folder.write(name, name);
  }
  std::filesystem::create_directory(folder / "sample-folder.txt");
  std::vector<std::string> names;
  for (const Sample& sample : read_run(folder.path()).samples) names.push_back(sample.file);
  EXPECT_THAT(names, ElementsAre("sample-0003.txt", "sample-20.txt", "sample-100.txt", "sample.txt"));
}

TEST(RunFolder, ShowsTheLastSamplesAndTheBeginningOfALongOne) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", kStep);
  for (int i = 1; i <= 30; ++i) folder.write("sample-" + std::to_string(i) + ".txt", std::string(100'000, 'a'));
  const RunFolder run = read_run(folder.path());
  ASSERT_EQ(run.samples.size(), kSamples);
  EXPECT_EQ(run.samples.back().file, "sample-30.txt");
  EXPECT_EQ(run.samples.back().text.size(), kSampleBytes);
}

TEST(RunFolder, SurvivesAnyConfiguration) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", kStep);
  std::string deep = "1";
  for (int i = 0; i < 100'000; ++i) deep = "{\"a\":" + deep;
  for (const std::string& config : {std::string("{"), std::string("[1]"), std::string("\xff"), deep,
                                    deep + std::string(100'000, '}'), "{\"a\":" + std::string(100'000, '[')}) {
    folder.write("config.json", config);
    EXPECT_THAT(read_run(folder.path()).configuration.size(), testing::Le(1u));
  }
  folder.write("config.json", R"({"list":[1,2],"nothing":null,"empty":{},"yes":true})");
  EXPECT_THAT(read_run(folder.path()).configuration,
              ElementsAre(Pair("list", "[1,2]"), Pair("nothing", "null"), Pair("empty", "{}"), Pair("yes", "true")));
}

TEST(RunFolder, DoesNotWaitForPipesNorReadDevices) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", kStep);
  ASSERT_EQ(mkfifo((folder / "config.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "sample.txt");
  const RunFolder run = read_run(folder.path());
  EXPECT_THAT(run.samples, IsEmpty());
  EXPECT_THAT(run.metrics.problems, ElementsAre(HasSubstr("config.json' cannot be read: it is not a regular file")));
  std::filesystem::remove(folder / "metrics.jsonl");
  ASSERT_EQ(mkfifo((folder / "metrics.jsonl").c_str(), 0600), 0);
  EXPECT_THROW(read_run(folder.path()), fsdp::Error);
}

TEST(RunFolder, ShowsTheFirstOfTooManySettings) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", kStep);
  std::string config = "{\"first\":1";
  for (int i = 0; i < 4000; ++i) config += ",\"" + std::to_string(i) + "\":1";
  folder.write("config.json", config + "}");
  const RunFolder run = read_run(folder.path());
  EXPECT_EQ(run.configuration.size(), 1000u);
  EXPECT_THAT(run.metrics.problems, ElementsAre(HasSubstr("has 4001 values; the first 1000 are shown")));
}

TEST(RunFolder, AddsUpTheTimeOfAllItsProcesses) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl",
               "{\"step\":1,\"seconds\":1}\n{\"step\":2,\"seconds\":2}\n{\"step\":3,\"seconds\":1}\n{\"step\":4}\n"
               "{\"step\":5,\"seconds\":4}\n");
  EXPECT_THAT(elapsed_seconds(read_run(folder.path()).metrics), ElementsAre(1.0, 2.0, 3.0, 3.0, 6.0));
}

}  // namespace
}  // namespace trainer
