// RUN/metrics.jsonl as a stranger, a flipped bit or another program may have left it: nothing is lost, and nothing of
// it brings a program down.
#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "metrics/fields.h"
#include "metrics/lines.h"
#include "metrics/metrics.h"
#include "metrics/metrics_reader.h"
#include "metrics/tensorboard.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string record(int64_t step) { return "{\"step\":" + std::to_string(step) + ",\"loss\":1}\n"; }

const std::vector<std::string> kNoRecords = {
    "{\"step\":-1,\"loss\":1}",
    "{\"step\":1.5,\"loss\":1}",
    "{\"step\":1e300,\"loss\":1}",
    "{\"step\":9007199254740993,\"loss\":1}",
    "{\"step\":99999999999999999999,\"loss\":1}",
    "{\"step\":\"2\",\"loss\":1}",
    "{\"step\":[2],\"loss\":1}",
    "{\"step\":2,\"step\":3}",
    "{\"step\":2,\"loss\":1e999}",
    std::string(50'000, '['),
    "{\"step\":2,\"loss\":" + std::string(50'000, '['),
    "{\"step\":2,\"loss\":" + std::string(25'000, '[') + std::string(25'000, ']') + "}",
    std::string("{\"step\":2\0}", 11),
    std::string(5000, '\0'),
    "\xff\xfe",
    std::string(kLongestLine + 1, ' ') + "{\"step\":2}",
};

TEST(HostileMetrics, AreNoRecords) {
  for (const std::string& line : kNoRecords) {
    if (line.size() <= kLongestLine) EXPECT_EQ(parse_record(line), std::nullopt) << line.substr(0, 60);
  }
  EXPECT_TRUE(parse_record("{\"step\":9007199254740992}").has_value());
}

TEST(HostileMetrics, AreLeftOutOfAReport) {
  TemporaryFolder folder;
  for (const std::string& line : kNoRecords) {
    const RunMetrics metrics = read_metrics(folder.write("m", record(1) + line + "\n" + record(2)));
    EXPECT_THAT(metrics.steps, ElementsAre(1, 2)) << line.substr(0, 60);
    EXPECT_THAT(metrics.problems, ElementsAre(HasSubstr("line 2"))) << line.substr(0, 60);
  }
}

TEST(HostileMetrics, StayWhereTheyAreWhenARunGoesOn) {
  TemporaryFolder folder;
  for (const std::string& line : kNoRecords) {
    const std::string kept = record(1) + line + "\n" + record(2);
    folder.write("m", kept + record(3));
    std::vector<std::string> told;
    const MetricsFile metrics(folder / "m", 2, [&](const std::string& text) { told.push_back(text); });
    EXPECT_THAT(metrics.losses(), SizeIs(2)) << line.substr(0, 60);
    EXPECT_THAT(told, ElementsAre(HasSubstr("line 2: not a record"))) << line.substr(0, 60);
    EXPECT_TRUE(read_bytes(folder / "m") == kept) << line.substr(0, 60);
  }
}

TEST(HostileMetrics, OfOneEndlessLineAreNotHeld) {
  TemporaryFolder folder;
  folder.write("m", record(1));
  fs::resize_file(folder / "m", uint64_t{1} << 27);
  std::ofstream(folder / "m", std::ios::app | std::ios::binary) << "\n" << record(2);
  LineReader lines(folder / "m");
  ASSERT_TRUE(lines.next());
  EXPECT_EQ(lines.text() + "\n", record(1));
  ASSERT_TRUE(lines.next());
  EXPECT_TRUE(lines.is_too_long());
  EXPECT_TRUE(lines.text().empty());
  EXPECT_LE(lines.text().capacity(), 2 * kLongestLine);
  ASSERT_TRUE(lines.next());
  EXPECT_EQ(lines.text() + "\n", record(2));
  EXPECT_EQ(lines.number(), 3);
  EXPECT_EQ(lines.end(), static_cast<int64_t>(fs::file_size(folder / "m")));
  EXPECT_FALSE(lines.next());
}

TEST(HostileMetrics, WhoseStepsDoNotRiseAreSetAside) {
  TemporaryFolder folder;
  for (const std::string& not_rising :
       {record(1) + record(7) + record(3), record(2) + record(2), record(3) + "{\"step\":2,\"event\":\"late\"}\n"}) {
    folder.write("run/m", not_rising);
    std::vector<std::string> told;
    {
      MetricsFile metrics(folder / "run/m", 3, [&](const std::string& text) { told.push_back(text); });
      metrics.write(StepRecord{.step = 4, .loss = 2});
      EXPECT_THAT(metrics.losses(), ElementsAre(2.0));
      EXPECT_EQ(metrics.first_step(), 4);
    }
    EXPECT_THAT(told, ElementsAre(testing::AllOf(HasSubstr("not of one run"), HasSubstr("m.before-1"))));
    EXPECT_EQ(read_bytes(folder / "run/m.before-1"), not_rising);
    EXPECT_THAT(read_metrics(folder / "run/m").steps, ElementsAre(4));
    fs::remove_all(folder / "run");
  }
}

TEST(HostileMetrics, AreNeverWrittenThroughALink) {
  TemporaryFolder folder;
  const std::string precious = folder.write("precious", record(1) + record(2));
  fs::create_symlink(precious, folder / "link");
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  for (const int64_t steps_done : {0, 1}) {
    for (const char* name : {"link", "dangling"}) {
      EXPECT_THAT(message_of<fsdp::Error>([&] { MetricsFile(folder / name, steps_done, [](const std::string&) {}); }),
                  HasSubstr("it is a symbolic link"));
    }
  }
  EXPECT_EQ(read_bytes(precious), record(1) + record(2));
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
}

TEST(HostileMetrics, ThatAreAPipeOrAFolderAreAnError) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder / "folder");
  for (const char* name : {"pipe", "folder"}) {
    EXPECT_THROW(MetricsFile(folder / name, 0, [](const std::string&) {}), fsdp::Error) << name;
    EXPECT_THROW(read_metrics(folder / name), fsdp::Error) << name;
  }
}

TEST(HostileMetrics, HaveNoMoreFieldsThanAReportCanHold) {
  TemporaryFolder folder;
  std::string line = "{\"step\":1";
  for (int i = 0; i < 3000; ++i) line += ",\"f" + std::to_string(i) + "\":1";
  const RunMetrics metrics = read_metrics(folder.write("m", line + "}\n"));
  EXPECT_THAT(metrics.columns, SizeIs(1000));
  EXPECT_THAT(metrics.problems, Contains(HasSubstr("one more field than the 1000")));
}

TEST(HostileMetrics, OfManyEventsAndOneStepAreReadInOnePass) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "{\"step\":0,\"event\":\"e\"}\n" + record(1);
  const RunMetrics metrics = read_metrics(folder.write("m", text));
  EXPECT_THAT(metrics.steps, ElementsAre(1));
  EXPECT_THAT(metrics.events, SizeIs(20'000));
}

TEST(HostileMetrics, HaveATensorBoardFileOfTheirOwn) {
  TemporaryFolder folder;
  const std::string precious = folder.write("precious", "text");
  fs::create_symlink(precious, folder / "tensorboard");
  EXPECT_THROW(TensorBoardFile(folder / "tensorboard", 0, {}, [](const std::string&) {}), fsdp::Error);
  EXPECT_EQ(read_bytes(precious), "text");
}

}  // namespace
}  // namespace trainer
