#include "crash/scenes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace crash {

namespace fs = std::filesystem;

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all{
      {.name = "BesideAnOlder", .target = "run/step-2", .older = "run/step-1", .names_after = {"step-1", "step-2"}},
      {.name = "InPlaceOfAnOlder", .target = "run/best", .older = "run/best", .names_after = {"best"}},
      {.name = "InPlaceWithoutExchange",
       .target = "run/best",
       .older = "run/best",
       .names_after = {"best"},
       .exchanges_names = false},
      {.name = "InNewFolders", .target = "run/of/step-2", .older = "", .names_after = {"step-2"}},
      {.name = "RemovingTheOlder", .target = "run/step-2", .older = "run/step-1", .names_after = {"step-2"}, .keep = 1},
      {.name = "BesideTheSteps",
       .target = "run/step-2",
       .older = "run/step-1",
       .names_after = {"step-1", "step-2"},
       .beside_steps = true}};
  return all;
}

void prepare(const Scene& scene, const Subject& subject, const fs::path& folder) {
  fs::create_directories(folder);
  if (scene.older.empty()) return;
  Subject first = subject;
  first.keep = 0;
  const Ending ending = save(first, folder / scene.older, 1);
  EXPECT_TRUE(ending.saved()) << ending.output;
}

Found found(const Scene& scene, const fs::path& folder, bool returned, std::string about) {
  return {.target = folder / scene.target,
          .steps = returned ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 2},
          .may_be_none = !returned && scene.older.empty(),
          .names = scene.names_after,
          .about = scene.name + ", " + std::move(about)};
}

Ending save(const Scene& scene, const Subject& subject, const fs::path& folder, file_faults::Plan plan) {
  plan.folder = folder.string();
  plan.exchanges_names = scene.exchanges_names;
  Subject saved = subject;
  saved.keep = scene.keep;
  saved.beside_steps = scene.beside_steps;
  return save(saved, folder / scene.target, 2, plan);
}

std::vector<file_faults::Logged> calls_of(const Scene& scene, const Subject& subject, const fs::path& scratch) {
  const fs::path folder = scratch / "counted";
  const std::string log = (scratch / "counted.log").string();
  fs::copy(scratch / "before", folder, fs::copy_options::recursive);
  const Ending ending = save(scene, subject, folder, {.log = log});
  EXPECT_TRUE(ending.saved()) << ending.output;
  std::vector<file_faults::Logged> calls = file_faults::read_log(log);
  std::erase_if(calls, [](const file_faults::Logged& one) { return one.call == file_faults::Call::Mark; });
  EXPECT_GT(calls.size(), 20u);  // or nothing is interposed
  return calls;
}

bool is_long() { return std::getenv("FSDP_SOAK_SECONDS") != nullptr; }

bool is_tried_fully(const Scene& scene) { return is_long() || scene.target == scene.older; }

bool is_tried_by_two_ranks(const Scene& scene) { return is_tried_fully(scene) && (is_long() || scene.exchanges_names); }

void in_rounds(int ranks, const std::function<int64_t(const Subject&)>& round) {
  using Clock = std::chrono::steady_clock;
  const char* seconds = std::getenv("FSDP_SOAK_SECONDS");
  const auto end = Clock::now() + std::chrono::seconds(seconds == nullptr ? 0 : std::atoll(seconds));
  constexpr int kNumbersOfRanks = 4;
  Subject subject{.ranks = ranks};
  int64_t cases = 0;
  for (int number = 0; number == 0 || (Clock::now() < end && !::testing::Test::HasFailure()); ++number) {
    cases += round(subject);
    if (seconds != nullptr) std::cout << "soak: " << cases << " cases" << std::endl;
    subject = {.ranks = ranks + (number + 1) % kNumbersOfRanks, .width = number % 3 == 2 ? 700 : 24};
  }
}

}  // namespace crash
