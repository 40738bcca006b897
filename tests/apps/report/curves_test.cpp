#include "report/curves.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace trainer {
namespace {

nlohmann::json series_of(const std::map<std::string, std::vector<double>>& columns) {
  RunFolder run{.name = "run"};
  run.metrics.steps = {1, 2};
  run.metrics.columns = columns;
  return nlohmann::json::parse(curves_json({run}))["runs"][0]["series"];
}

TEST(Curves, AddUpTheTimeOutsideOfPassesAndOptimizer) {
  const nlohmann::json series = series_of({{"data_seconds", {0.25, 0.5}}, {"other_seconds", {0.5, 1.0}}});
  EXPECT_EQ(series["outside_seconds"]["mean"], nlohmann::json({0.75, 1.5}));
}

TEST(Curves, TakeAllOfItForDataWhereNothingElseIsKnown) {
  EXPECT_EQ(series_of({{"data_seconds", {0.25, 0.5}}})["outside_seconds"]["mean"], nlohmann::json({0.25, 0.5}));
}

TEST(Curves, HaveThePartsOfMemoryFromTheGroundUp) {
  RunFolder run{.name = "run"};
  run.metrics.steps = {1};
  for (const char* part :
       {"other tensors", "activations", "another", "optimizer", "parameters", "program and LibTorch"}) {
    run.metrics.columns[std::string("memory.") + part] = {1.0};
  }
  run.metrics.columns["memory_bytes"] = {5.0};
  std::vector<std::string> names;
  const nlohmann::json curves = nlohmann::json::parse(curves_json({run}));
  for (const nlohmann::json& part : curves["runs"][0]["memory"]) names.push_back(part["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"program and LibTorch", "parameters", "optimizer", "activations",
                                             "other tensors", "another", "resident"}));
}

// Each part of two runs, with its colour.
TEST(Curves, GiveAPartOfMemoryTheSameColourInEachRun) {
  const std::vector<std::string> nine = {
      "program and LibTorch", "copy for saves", "parameters",  "gradients",    "optimizer",
      "full parameters",      "full gradients", "activations", "other tensors"};
  RunFolder all{.name = "all"}, few{.name = "few"};
  all.metrics.steps = few.metrics.steps = {1};
  for (const std::string& part : nine) all.metrics.columns["memory." + part] = {1.0};
  for (const char* part : {"memory.optimizer", "memory.activations", "memory.another", "memory.more"}) {
    few.metrics.columns[part] = {1.0};
  }
  const nlohmann::json runs = nlohmann::json::parse(curves_json({all, few}))["runs"];
  std::map<std::string, int> colours;
  for (const nlohmann::json& part : runs[0]["memory"]) colours[part["name"]] = part["colour"];
  std::set<int> different;
  for (const std::string& part : nine) different.insert(colours.at(part));
  EXPECT_EQ(different.size(), nine.size());
  for (const nlohmann::json& part : runs[1]["memory"]) {
    const std::string name = part["name"];
    EXPECT_EQ(part["colour"], colours.contains(name) ? colours[name] : 9) << name;  // 9: that of the rest
  }
}

}  // namespace
}  // namespace trainer
