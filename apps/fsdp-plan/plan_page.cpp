#include "fsdp-plan/plan_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"
#include "fsdp-plan/plan_charts.h"
#include "fsdp-plan/plan_setting.h"
#include "fsdp-plan/plan_tables.h"
#include "planning/plan_text.h"
#include "report/card.h"
#include "report/frame.h"
#include "report/text.h"

namespace planner {

namespace {

using trainer::PlanNumbers;

std::string tile(const char* name, const std::string& value, const std::string& remark) {
  return fmt::format("<div><dt>{}</dt><dd>{} <small>{}</small></dd></div>\n", name, value, remark);
}

std::string tiles_of(const PlanArguments& arguments, const PlanNumbers& numbers) {
  const trainer::PlannedCommunication& bytes = numbers.communication;
  std::string tiles = tile(
      "peak memory", trainer::plan_bytes(numbers.memory.peak),
      fmt::format("{} into {}", numbers.fits ? "fits" : "does not fit", trainer::plan_bytes(arguments.target.memory)));
  tiles += tile("memory per parameter", fmt::format("{:.2f} B", numbers.bytes_per_parameter()), "of the peak");
  tiles += tile("received per step", trainer::plan_bytes(bytes.within_hosts + bytes.across_hosts),
                fmt::format("{} across hosts", trainer::plan_bytes(bytes.across_hosts)));
  if (numbers.time)
    tiles += tile("a step", seconds_text(numbers.time->step),
                  fmt::format("{:.0f} % computation", 100 * numbers.time->compute / numbers.time->step));
  return fmt::format("<dl class=\"tiles\">\n{}</dl>\n", tiles);
}

// "5 of 9 fit into 84.9 GB."
std::string fit_sentence(const PlanArguments& arguments, const std::vector<PlanRow>& rows) {
  const auto fitting = std::ranges::count_if(rows, [](const PlanRow& row) { return row.numbers.fits; });
  return fmt::format("<p>{} of {} fit into {}.</p>\n", fitting, rows.size(),
                     trainer::plan_bytes(arguments.target.memory));
}

std::string section(const char* id, const char* title, const std::string& content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, content);
}

std::string limits_section(const trainer::PlanLimits& limits) {
  const auto count = [](const std::optional<int64_t>& number) { return number ? trainer::grouped(*number) : "none"; };
  const std::string tiles = tile("largest batch", count(limits.largest_batch), "sequences of a micro-batch") +
                            tile("longest sequence", count(limits.longest_sequence), "tokens") +
                            tile("fewest ranks", limits.cheapest ? trainer::grouped(limits.cheapest->ranks) : "none",
                                 limits.cheapest ? trainer::html_words(limits.cheapest->text()) : "");
  return section("limits", "Limits", fmt::format("<dl class=\"tiles\">\n{}</dl>\n", tiles));
}

std::string numbers_section(const PlanPage& page) {
  return fmt::format(
      "<details class=\"fold\"><summary>As --json prints them</summary>\n<pre tabindex=\"0\" "
      "id=\"json\">{}</pre>\n</details>\n",
      trainer::html(page.json));
}

}  // namespace

std::string plan_page(const PlanArguments& arguments, const PlanPage& page) {
  const bool is_one = page.rows.size() == 1 && page.words.empty();
  const std::string head = !page.words.empty() ? page.words
                           : is_one            ? tiles_of(arguments, page.rows.front().numbers)
                                               : fit_sentence(arguments, page.rows);
  std::string main = fmt::format("<section id=\"summary\">\n{}</section>\n<section id=\"facts\">\n{}</section>\n", head,
                                 setting_card(arguments, page.strategy));
  main += section("memory", "Memory", memory_chart(arguments, page.rows) + numbers_table(page.rows, PlanTopic::Memory));
  main += section("communication", "Communication",
                  communication_chart(page.rows) + numbers_table(page.rows, PlanTopic::Communication));
  main += section("time", "Time", time_chart(arguments, page.rows) + numbers_table(page.rows, PlanTopic::Time));
  if (page.limits) main += limits_section(*page.limits);
  main += section("numbers", "Numbers", numbers_section(page));
  return trainer::framed_page({.title = page.kind,
                               .subtitle = setting_sentence(arguments, page.strategy),
                               .label = is_one ? fit_label(page.rows.front().numbers) : "",
                               .main = main,
                               .programs = trainer::joined_assets({"settings.js", "plan.js"})});
}

}  // namespace planner
