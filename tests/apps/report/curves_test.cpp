#include "report/curves.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace trainer
