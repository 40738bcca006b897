// fsdp-train --profile: one trace of all ranks, and a page.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>

#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
namespace fs = std::filesystem;

struct Event {
  std::string name;
  int64_t begin, end;  // nanoseconds
  json facts;
};

int64_t nanoseconds(const json& microseconds) { return std::llround(1000 * microseconds.get<double>()); }

// A trace of all ranks: by rank and row, in the order of the file.
struct ReadTrace {
  explicit ReadTrace(const std::string& file) {
    for (const json& event : json::parse(read_bytes(file))) {
      const int rank = event["pid"];
      if (event["ph"] == "M" && event["name"] == "thread_name") titles[rank][event["tid"]] = event["args"]["name"];
      if (event["ph"] == "C") memory[rank].emplace_back(nanoseconds(event["ts"]), event["args"]);
      if (event["ph"] != "X") continue;
      const int64_t begin = nanoseconds(event["ts"]);
      by_row[rank][event["tid"]].push_back(
          {event["name"], begin, begin + nanoseconds(event["dur"]), event.value("args", json())});
    }
  }

  std::vector<Event> row(int rank, const std::string& title) const {
    for (const auto& [row, events] : by_row.at(rank)) {
      if (titles.at(rank).at(row) == title) return events;
    }
    return {};
  }
  std::vector<std::string> names(int rank, const std::string& title) const {
    std::vector<std::string> names;
    for (const Event& event : row(rank, title)) names.push_back(event.name);
    return names;
  }

  std::map<int, std::map<int, std::string>> titles;
  std::map<int, std::map<int, std::vector<Event>>> by_row;
  std::map<int, std::vector<std::pair<int64_t, json>>> memory;
};

// Each event begins behind the one before it, or lies within it.
void expect_nested(const ReadTrace& trace) {
  for (const auto& [rank, rows] : trace.by_row) {
    for (const auto& [row, events] : rows) {
      std::vector<Event> open;
      for (const Event& event : events) {
        while (!open.empty() && open.back().end <= event.begin) open.pop_back();
        const std::string& title = trace.titles.at(rank).at(row);
        EXPECT_TRUE(open.empty() || (title == "program" && open.back().end >= event.end))
            << "rank " << rank << ", " << title << ": " << event.name << " in " << open.back().name;
        open.push_back(event);
      }
    }
  }
}

// The most bytes of these parts between two times.
int64_t most_bytes(const std::vector<std::pair<int64_t, json>>& memory, int64_t begin, int64_t end,
                   const std::vector<const char*>& parts) {
  int64_t most = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].first >= end || (i + 1 < memory.size() && memory[i + 1].first <= begin)) continue;
    int64_t sum = 0;
    for (const char* part : parts) sum += memory[i].second.at(part).get<int64_t>();
    most = std::max(most, sum);
  }
  return most;
}

class TrainProfile : public TrainProgram {
 protected:
  Ending profiled(const std::string& more) const { return tiny("run", more + " --profile " + folder_ / "profile"); }
  ReadTrace trace() const { return ReadTrace(folder_ / "profile/trace.json"); }
  std::string page() const { return read_bytes(folder_ / "profile/profile.html"); }
};

TEST_F(TrainProfile, HasAllRanksAndNestedSteps) {
  const Ending ending = profiled("--ranks 3 --steps 9 --log-every 1");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("profile of steps 3 to 7: " + folder_ / "profile/profile.html"));
  EXPECT_FALSE(fs::exists(folder_ / "run/traces"));
  const ReadTrace read = trace();
  EXPECT_EQ(read.by_row.size(), 3);
  expect_nested(read);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<std::string> names = read.names(rank, "program");
    EXPECT_THAT(
        std::vector(names.begin(), names.begin() + 6),
        ElementsAre("step 3", "forward and backward", "clipping", "reading of losses", "exchange of losses", "update"));
    EXPECT_EQ(names.size(), 5 * 6);
    for (const char* row : {"forward", "backward", "optimizer", "waits", "gather", "reduce"})
      EXPECT_FALSE(read.names(rank, row).empty()) << row;
    EXPECT_FALSE(read.memory.at(rank).empty());
  }
  // All ranks exchange the losses of a step at one time.
  for (size_t i = 0; i < 5; ++i) {
    int64_t last_begin = 0, first_end = INT64_MAX;
    for (int rank = 0; rank < 3; ++rank) {
      const Event exchange = read.row(rank, "program").at(6 * i + 4);
      last_begin = std::max(last_begin, exchange.begin);
      first_end = std::min(first_end, exchange.end);
    }
    EXPECT_LE(last_begin, first_end);
  }
  for (const char* part : {"Memory over time", "Time of a step", "Planned and measured", "3 ranks", "Rank ",
                           "The largest difference: ", "exposed communication"}) {
    EXPECT_THAT(page(), HasSubstr(part));
  }
}

// The counters of a step are memory() and the record of the step.
TEST_F(TrainProfile, HasTheMemoryOfTheRecord) {
  const Ending ending = profiled("--ranks 2 --steps 6 --trace-steps 4..5 --width 64 --heads 2");
  ASSERT_EQ(ending.code, 0) << ending.output;
  const ReadTrace read = trace();
  const std::vector<json> records = metrics_of(folder_ / "run");
  int compared = 0;
  for (const Event& event : read.row(0, "program")) {
    if (!event.name.starts_with("step ")) continue;
    const auto record = std::ranges::find_if(records, [&](const json& one) {
      return !one.contains("event") && "step " + std::to_string(one["step"].get<int>()) == event.name;
    });
    ASSERT_NE(record, records.end());
    const json& parts = (*record)["memory"];
    for (const char* part : {"parameters", "gradients", "optimizer", "full parameters", "full gradients"}) {
      EXPECT_EQ(most_bytes(read.memory.at(0), event.begin, event.end, {part}), parts.at(part)) << part;
    }
    const int64_t activations = parts.at("activations"), others = parts.at("other tensors");
    EXPECT_GT(activations, 0);
    EXPECT_EQ(most_bytes(read.memory.at(0), event.begin, event.end, {"activations"}), activations);
    EXPECT_EQ(most_bytes(read.memory.at(0), event.begin, event.end, {"activations", "other tensors"}),
              activations + others);
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

TEST_F(TrainProfile, ChangesNoBit) {
  const std::string arguments = "--ranks 2 --steps 4 --dropout 0.1 --width 64 --heads 2 ";
  ASSERT_EQ(tiny("plain", arguments).code, 0);
  ASSERT_EQ(profiled(arguments).code, 0);
  EXPECT_EQ(reproducible_steps_of(folder_ / "run"), reproducible_steps_of(folder_ / "plain"));
}

TEST_F(TrainProfile, NamesTheActionsOfAPipeline) {
  const Ending ending = profiled(
      "--ranks 2 --pipeline-parallel 2 --pipeline-schedule zero-bubble --micro-batches 3 --steps 4 --trace-steps 3..4 "
      "--width 64 --heads 2 --layers 4");
  ASSERT_EQ(ending.code, 0) << ending.output;
  const ReadTrace read = trace();
  expect_nested(read);
  for (const int rank : {0, 1}) {
    std::vector<std::string> passes;
    for (const char* pass : {"F", "I", "W"}) {
      for (const char* micro_batch : {"0", "1", "2"}) passes.push_back(std::to_string(rank) + pass + micro_batch);
    }
    EXPECT_THAT(read.names(rank, "pipeline"), IsSupersetOf(passes));
    EXPECT_EQ(std::ranges::count(read.names(rank, "pipeline"), passes[0]), 2) << "once in each step";
    for (const Event& action : read.row(rank, "pipeline")) {
      if (action.name == std::to_string(rank) + "W2") {
        EXPECT_EQ(action.facts, json({{"stage", rank}, {"pass", "weight gradient"}, {"micro_batch", 2}}));
      }
    }
  }
  EXPECT_THAT(page(), HasSubstr("idle in the pipeline"));
}

std::string free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(listener);
  return std::to_string(ntohs(address.sin_port));
}

// Two hosts; the second one is a time namespace, whose clock is 1000 s ahead.
TEST_F(TrainProfile, AlignsTheClocksOfHosts) {
  const std::string ahead = "unshare --fork --time --monotonic 1000 ";
  if (run_command(ahead + "true").code != 0) FSDP_SKIP_TEST("this user may not make time namespaces");
  const std::string variables =
      "WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + free_port() + " ";
  const std::string program =
      FSDP_TRAIN_PROGRAM " " + tiny_arguments("run", "--steps 5 --profile " + folder_ / "profile");
  const Ending ending = run_command("sh -c '" + variables + "RANK=1 " + ahead + program + " & " + variables +
                                    "RANK=0 " + program + "; code=$?; wait; exit $code'");
  ASSERT_EQ(ending.code, 0) << ending.output;
  std::smatch numbers;
  const std::string text = page();
  ASSERT_TRUE(std::regex_search(
      text, numbers, std::regex("From rank 1 on, (-[0-9.]+) s are added .* rank 0&#39;s within ([0-9.]+) ms")));
  constexpr double kRounding = 1e-6;
  EXPECT_NEAR(std::stod(numbers[1]), -1000, 1e-3 * std::stod(numbers[2]) + kRounding);
  const ReadTrace read = trace();
  const auto steps = [&](int rank) {
    const std::vector<Event> all = read.row(rank, "program");
    return std::pair(all.front().begin, std::ranges::max(all, {}, &Event::end).end);
  };
  EXPECT_LT(steps(0).first, steps(1).second);
  EXPECT_LT(steps(1).first, steps(0).second);
}

TEST_F(TrainProfile, CountsStepsOfAResumedRun) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 4").code, 0);
  const Ending ending = profiled("--ranks 2 --steps 20");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_EQ(trace().names(1, "program").front(), "step 7");
}

TEST_F(TrainProfile, GoesOnWithoutAPlaceForIt) {
  folder_.write("profile", "a file");
  const Ending ending = profiled("--ranks 2 --steps 4 --log-every 1");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("the profile could not be written, training goes on"),
                                   Not(HasSubstr("profile of steps"))));
  EXPECT_EQ(losses_of(folder_ / "run").size(), 4);
}

}  // namespace
