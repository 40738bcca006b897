// Prints published step times beside simulated ones as JSON, for tools/write_simulator.py.
#include <nlohmann/json.hpp>

#include <iostream>

#include "planning/published_times.h"

namespace {

nlohmann::json summary_json(const std::vector<trainer::PublishedTime>& times, bool of_fitted) {
  const trainer::ErrorSummary summary = trainer::summary_of(times, of_fitted);
  return {{"rows", summary.rows},
          {"mean", summary.mean},
          {"median", summary.median},
          {"nine_in_ten", summary.nine_in_ten},
          {"worst", summary.worst}};
}

nlohmann::json table_json(const std::vector<trainer::PublishedTime>& times) {
  nlohmann::json rows = nlohmann::json::array();
  for (const trainer::PublishedTime& time : times)
    rows.push_back({{"source", time.source},
                    {"setting", time.setting},
                    {"measured", time.measured},
                    {"predicted", time.predicted},
                    {"error", time.error()},
                    {"fitted", time.is_fitted}});
  return {{"rows", rows}, {"predicted", summary_json(times, false)}, {"fitted", summary_json(times, true)}};
}

}  // namespace

int main() {
  std::cout << nlohmann::json{{"vtrain", table_json(trainer::vtrain_times())},
                              {"sharded", table_json(trainer::published_times())},
                              {"h200", table_json(trainer::h200_times())},
                              {"cpu", table_json(trainer::cpu_times())}}
                   .dump(1)
            << "\n";
}
