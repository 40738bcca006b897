// The page of a profile: its numbers, sentences and course of memory.
#include "report/profile_page.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/report/sample_profile.h"
#include "report/profile_memory.h"
#include "report/profile_plan.h"
#include "support/message_of.h"

namespace trainer {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ProfileMemory, ExplainsThePeakOfTheFullestRank) {
  const Profile profile = sample_profile();
  const MemoryPeak peak = highest_peak(profile);
  EXPECT_EQ(peak.rank, 1);
  EXPECT_EQ(peak.bytes, 28'125'001);  // 18.5 MB that stay, 9 MB and 1 byte, and five eighths of 1 MB
  EXPECT_EQ(part_bytes(peak.memory, "activations"), 9'625'001);
  EXPECT_THAT(
      peak_sentences(profile, peak),
      AllOf(
          HasSubstr("Rank 1 holds most: 28.1 MB at its peak, in step 2, during the backward of blocks.0"),
          HasSubstr("The largest part: activations, 9.6 MB (34 %): tensors that the forward saves for the backward")));
}

TEST(ProfileMemory, KeepsThePeakOfALongCourse) {
  const Profile profile = sample_profile(5000);
  const MemoryPeak peak = highest_peak(profile);
  const json run = json::parse(memory_course_json(profile, peak)).at("runs").at(0);
  EXPECT_LE(run.at("milliseconds").size(), 2000);
  EXPECT_TRUE(std::ranges::is_sorted(run.at("milliseconds")));
  int64_t most = 0;
  for (size_t i = 0; i < run.at("step").size(); ++i) {
    int64_t sum = 0;
    for (const json& part : run.at("memory")) sum += part.at("bytes").at(i).get<int64_t>();
    most = std::max(most, sum);
  }
  EXPECT_NEAR(static_cast<double>(most), static_cast<double>(peak.bytes), 5) << "numbers have seven digits";
}

TEST(ProfileMemory, LeavesOutStateInFiles) {
  Profile profile = sample_profile();
  for (RankTrace& rank : profile.ranks) {
    for (TraceMemory& memory : rank.memory) memory.bytes.emplace_back("state in files", 8'000'000);
  }
  const MemoryPeak peak = highest_peak(profile);
  EXPECT_EQ(peak.bytes, 20'125'001);
  for (const json& part : json::parse(memory_course_json(profile, peak)).at("runs").at(0).at("memory")) {
    if (part.at("name") == "optimizer") {
      EXPECT_EQ(part.at("bytes").at(0), 0);
    }
  }
}

TEST(ProfilePlan, NamesTheLargestDifferencesAndWhy) {
  const Profile profile = sample_profile();
  const MemoryPeak peak = highest_peak(profile);
  const Comparison comparison = compare_with_plan(profile, peak, step_shares(profile.ranks));
  EXPECT_THAT(comparison.memory_sentences,
              AllOf(HasSubstr("The peak is 20 % above the plan: 28.1 MB, planned 23.4 MB."),
                    HasSubstr("The largest difference: activations, 4.6 MB more than the planned 5.0 MB."),
                    HasSubstr("tensors that one micro-batch's operators save")));
  EXPECT_THAT(comparison.time_sentences, AllOf(HasSubstr("A step is 125 % above the plan"),
                                               HasSubstr("computation, 25 ms more than the planned 40 ms"),
                                               HasSubstr("steps reach 50 % of 1 TFLOP/s")));
  double measured = 0;
  for (const ComparedNumber& number : comparison.memory) measured += number.measured;
  EXPECT_EQ(measured, static_cast<double>(peak.bytes));
}

TEST(ProfilePage, HasAllPartsAndEscapesNames) {
  const std::string page = profile_page(sample_profile());
  for (const char* part :
       {"Profile of &lt;i&gt;run", "Memory over time", "Time of a step", "Planned and measured", "&lt;b&gt;root",
        "waiting for the slowest rank", "&lt;u&gt;host 2", "class MemoryChart", "The ranks wait most for rank 1"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  for (const char* part : {"<b>root", "<i>run", "<u>host", "{{", "http://"})
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
}

TEST(ProfilePage, DoesWithoutAPlanAndMemory) {
  Profile profile = sample_profile();
  profile.plan.reset();
  for (RankTrace& rank : profile.ranks) rank.memory.clear();
  const std::string page = profile_page(profile);
  EXPECT_THAT(page, HasSubstr("The trace has no memory."));
  EXPECT_THAT(page, Not(HasSubstr("Planned and measured")));
}

TEST(RankTrace, ReadsSpansAndTheFirstCounter) {
  const RankTrace trace = read_rank_trace(R"([
    {"name": "process_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "rank 3"}},
    {"name": "forward a", "cat": "forward", "ph": "X", "ts": 1.5, "dur": 0.25, "pid": 3, "tid": 1},
    {"name": "memory", "cat": "memory", "ph": "C", "ts": 2, "pid": 3, "args": {"parameters": 7, "activations": 1}},
    {"name": "memory 2", "cat": "memory", "ph": "C", "ts": 2, "pid": 3, "args": {"parameters": 9}}])");
  EXPECT_EQ(trace.rank, 3);
  ASSERT_EQ(trace.spans.size(), 1);
  EXPECT_EQ(trace.spans[0].begin, 1500);
  EXPECT_EQ(trace.spans[0].end, 1750);
  ASSERT_EQ(trace.memory.size(), 1);
  EXPECT_THAT(trace.memory[0].bytes, ElementsAre(std::pair("parameters", 7), std::pair("activations", 1)));
  EXPECT_THAT(fsdp::testing::message_of<fsdp::Error>([] { read_rank_trace("[{]"); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace trainer
