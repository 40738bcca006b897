#include "fsdp-plan/search_sentences.h"

#include <fmt/format.h>

#include <cmath>

#include "console/units.h"
#include "fsdp-plan/plan_rows.h"
#include "planning/plan_text.h"

namespace planner {

namespace {

using trainer::TriedSetting;

std::string number_text(double number) { return trainer::grouped(static_cast<int64_t>(std::llround(number))); }

std::string cost_sentence(const SearchArguments& arguments, const TriedSetting& tried) {
  const RunCost cost = run_cost(arguments, tried);
  return fmt::format("The run takes {}, {} device hours{}.", trainer::rough_duration(cost.seconds),
                     number_text(cost.device_hours),
                     cost.dollars ? fmt::format(" and {} dollars", number_text(*cost.dollars)) : "");
}

}  // namespace

RunCost run_cost(const SearchArguments& arguments, const TriedSetting& tried) {
  const trainer::RunOptions run = tried.setting.applied_to(arguments.plan.options);
  const double steps = std::ceil(arguments.tokens.value() / static_cast<double>(run.tokens_per_step()));
  RunCost cost{.seconds = steps * tried.numbers.time.value().step};
  cost.device_hours = cost.seconds * static_cast<double>(run.ranks) / 3600;
  const double price = arguments.plan.target.hardware.dollars_per_hour;
  if (price > 0) cost.dollars = price * cost.device_hours;
  return cost;
}

std::string best_word(const SearchArguments& arguments) {
  return arguments.wish.goal == trainer::SearchGoal::Money ? "cheapest" : "fastest";
}

std::string search_sentence(const SearchArguments& arguments, const trainer::SearchResult& result) {
  const auto count = [](size_t number) { return trainer::grouped(static_cast<int64_t>(number)); };
  return fmt::format("{} settings with {} tokens per step; {} do not fit into {}, {} cannot be among the best.",
                     count(result.settings), trainer::grouped(arguments.plan.options.tokens_per_step()),
                     count(result.unfit), trainer::plan_bytes(arguments.plan.target.memory), count(result.left_out));
}

std::string best_sentence(const SearchArguments& arguments, const TriedSetting& best) {
  const std::string step = fmt::format("A step of {}, peak {}.", seconds_text(best.numbers.time.value().step),
                                       trainer::plan_bytes(best.numbers.memory.peak));
  return arguments.tokens ? fmt::format("{} {}", step, cost_sentence(arguments, best)) : step;
}

std::string size_sentence(const SearchArguments& arguments, const TriedSetting& tried) {
  return fmt::format("Needs {} of {}.",
                     trainer::plan_bytes(tried.numbers.host_bytes.value_or(tried.numbers.memory.peak)),
                     trainer::plan_bytes(arguments.plan.target.memory));
}

}  // namespace planner
