// The result of fsdp-plan search in sentences, for its text and its page.
#pragma once

#include <optional>
#include <string>

#include "fsdp-plan/search_arguments.h"

namespace planner {

// The whole run of --tokens with a setting.
struct RunCost {
  double seconds = 0, device_hours = 0;
  std::optional<double> dollars = std::nullopt;  // none: the machine has no price
};
RunCost run_cost(const SearchArguments& arguments, const trainer::TriedSetting& tried);

// "fastest", "cheapest"
std::string best_word(const SearchArguments& arguments);
// "1,204 settings with 524,288 tokens per step; 310 do not fit into 84.9 GB, 800 cannot be among the best."
std::string search_sentence(const SearchArguments& arguments, const trainer::SearchResult& result);
// "A step of 258.0 ms, peak 25.9 GB." With --tokens also the run's time and cost.
std::string best_sentence(const SearchArguments& arguments, const trainer::TriedSetting& best);
// "Needs 120 GB of 84.9 GB."
std::string size_sentence(const SearchArguments& arguments, const trainer::TriedSetting& tried);

}  // namespace planner
