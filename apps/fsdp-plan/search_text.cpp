#include "fsdp-plan/search_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/paragraph.h"
#include "fsdp-plan/plan_arguments.h"
#include "fsdp-plan/plan_rows.h"
#include "fsdp-plan/search_page.h"
#include "fsdp-plan/search_sentences.h"

namespace planner {

namespace {

using trainer::SearchResult;
using trainer::TriedSetting;

constexpr size_t kSettingIndent = 4;

// A flag and its value stay in one line.
std::string options_paragraph(std::string options, size_t width) {
  constexpr char kGlue = '\x1f';
  for (size_t i = 0; i + 1 < options.size(); ++i) {
    if (options[i] == ' ' && options[i + 1] != '-') options[i] = kGlue;
  }
  std::string text = trainer::paragraph("", options, kSettingIndent, width);
  std::ranges::replace(text, kGlue, ' ');
  return text;
}

std::string setting_text(const TriedSetting& setting, const std::string& remark, size_t width) {
  return options_paragraph(setting.options, width) + trainer::paragraph("", remark, kSettingIndent + 2, width);
}

std::string result_text(const SearchArguments& arguments, const SearchResult& result, size_t width) {
  std::string text =
      heading(arguments.plan) + "\n" + trainer::paragraph("", search_sentence(arguments, result), 2, width);
  if (!result.fitting.empty()) {
    const TriedSetting& best = result.fitting.front();
    text += fmt::format("\nthe {}\n", best_word(arguments));
    text += setting_text(best, best_sentence(arguments, best), width);
    if (result.fitting.size() > 1) text += "\nrunners-up\n";
    for (size_t i = 1; i < result.fitting.size(); ++i)
      text += setting_text(result.fitting[i], trainer::why_worse(result.fitting[i], best, arguments.wish.goal), width);
  }
  if (!result.too_large.empty()) text += "\ntoo large\n";
  for (const TriedSetting& tried : result.too_large)
    text += setting_text(tried, size_sentence(arguments, tried), width);
  return text;
}

nlohmann::json setting_json(const TriedSetting& tried) {
  return {{"options", tried.options}, {"ranks", tried.setting.ranks}, {"plan", trainer::plan_json(tried.numbers)}};
}

nlohmann::json cost_json(const RunCost& cost) {
  nlohmann::json json = {{"seconds", cost.seconds}, {"device_hours", cost.device_hours}, {"dollars", nullptr}};
  if (cost.dollars) json["dollars"] = *cost.dollars;
  return json;
}

nlohmann::json result_json(const SearchArguments& arguments, const SearchResult& result) {
  nlohmann::json fitting = nlohmann::json::array(), too_large = nlohmann::json::array();
  for (const TriedSetting& tried : result.fitting) {
    fitting.push_back(setting_json(tried));
    if (arguments.tokens) fitting.back()["run"] = cost_json(run_cost(arguments, tried));
  }
  for (const TriedSetting& tried : result.too_large) too_large.push_back(setting_json(tried));
  return {{"settings", result.settings},
          {"left_out", result.left_out},
          {"unfit", result.unfit},
          {"fitting", fitting},
          {"too_large", too_large}};
}

// Numbers of ranks that may share the state: powers of 2 that divide all, and all.
std::vector<int64_t> group_sizes(int64_t ranks) {
  std::vector<int64_t> sizes;
  for (int64_t size = 2; size < ranks; size *= 2) {
    if (ranks % size == 0) sizes.push_back(size);
  }
  return sizes;
}

// Layers of a unit: powers of 2, and all layers. A list of parameters has the units of its names.
std::vector<int64_t> unit_sizes(const PlanArguments& arguments) {
  std::vector<int64_t> sizes;
  if (arguments.target.listed != nullptr) return sizes;
  const int64_t layers = arguments.options.model.layers;
  for (int64_t size = 2; size < layers; size *= 2) sizes.push_back(size);
  if (layers > 1) sizes.push_back(layers);
  return sizes;
}

}  // namespace

ModelPlan search_plan(const std::vector<std::string>& words, size_t width) {
  const SearchArguments arguments = read_search(words);
  if (!arguments.plan.problems.empty()) return {.text = "", .problems = arguments.plan.problems};
  const SearchResult result = trainer::search(arguments.plan.target, arguments.plan.options, arguments.wish);
  const std::string json = result_json(arguments, result).dump(2) + "\n";
  return answered(arguments.plan, arguments.plan.as_json ? json : result_text(arguments, result, width),
                  [&] { return search_page(arguments, result, json); });
}

ModelPlan compare_plans(const std::vector<std::string>& words, size_t) {
  const PlanArguments arguments = read_plan(words, "compare");
  if (!arguments.problems.empty()) return {.text = "", .problems = arguments.problems};
  std::vector<PlanRow> rows = strategy_rows(arguments);
  for (const int64_t size : group_sizes(arguments.options.ranks)) {
    trainer::RunOptions options = arguments.options;
    options.strategy = "full-shard";
    options.shard_group_size = size;
    rows.push_back({fmt::format("full-shard over {}", size), trainer::plan_numbers(arguments.target, options)});
  }
  for (const int64_t layers : unit_sizes(arguments)) {
    trainer::RunOptions options = arguments.options;
    options.strategy = "full-shard";
    options.layers_per_unit = layers;
    rows.push_back({fmt::format("full-shard, units of {}", layers), trainer::plan_numbers(arguments.target, options)});
  }
  return compared(arguments, rows);
}

}  // namespace planner
