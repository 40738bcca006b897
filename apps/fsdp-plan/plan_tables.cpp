#include "fsdp-plan/plan_tables.h"

#include <fmt/format.h>

#include "fsdp-plan/plan_charts.h"
#include "planning/plan_text.h"
#include "report/text.h"

namespace planner {

namespace {

struct NumberColumn {
  PlanTopic topic;
  const char* label;
  const char* name;  // of plan_json
};

constexpr NumberColumn kColumns[] = {{PlanTopic::Memory, "parameters", "parameters"},
                                     {PlanTopic::Memory, "gradients", "gradients"},
                                     {PlanTopic::Memory, "optimizer", "optimizer"},
                                     {PlanTopic::Memory, "full parameters", "full_parameters"},
                                     {PlanTopic::Memory, "full gradients", "full_gradients"},
                                     {PlanTopic::Memory, "activations", "activations"},
                                     {PlanTopic::Memory, "others, about", "others"},
                                     {PlanTopic::Memory, "peak", "peak"},
                                     {PlanTopic::Communication, "within hosts", "within_hosts"},
                                     {PlanTopic::Communication, "across hosts", "across_hosts"},
                                     {PlanTopic::Time, "step", "step"},
                                     {PlanTopic::Time, "computation", "compute"},
                                     {PlanTopic::Time, "exposed communication", "exposed_communication"},
                                     {PlanTopic::Time, "idle", "idle"}};

const char* name_of(PlanTopic topic) {
  return topic == PlanTopic::Memory ? "memory" : topic == PlanTopic::Communication ? "communication" : "time";
}

std::string number_cell(const NumberColumn& column, const nlohmann::json& plan) {
  const nlohmann::json& numbers = plan.at(name_of(column.topic));
  if (numbers.is_null()) return "–";
  const nlohmann::json& number = numbers.at(column.name);
  const double value = number.get<double>();
  return fmt::format("<data value=\"{}\">{}</data>", number.dump(),
                     column.topic == PlanTopic::Time ? seconds_text(value) : trainer::plan_bytes(value));
}

}  // namespace

std::string numbers_table(const std::vector<PlanRow>& rows, PlanTopic topic) {
  const bool has_fit = topic == PlanTopic::Memory;
  std::string heads, body;
  for (const NumberColumn& column : kColumns) {
    if (column.topic == topic) heads += fmt::format("<th scope=\"col\">{}</th>", column.label);
  }
  for (const auto& [name, numbers] : rows) {
    const nlohmann::json plan = trainer::plan_json(numbers);
    body += fmt::format("<tr><th scope=\"row\">{}</th>", trainer::html(name));
    for (const NumberColumn& column : kColumns) {
      if (column.topic == topic)
        body += fmt::format("<td data-label=\"{}\"><span>{}</span></td>", column.label, number_cell(column, plan));
    }
    if (has_fit) body += fmt::format("<td class=\"text\">{}</td>", fit_label(numbers));
    body += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"scroll\"><table class=\"numbers cards plans\">\n<thead><tr><th "
      "scope=\"col\">setting</th>{}{}</tr></thead>\n<tbody>{}</tbody>"
      "</table></div>\n",
      heads, has_fit ? "<th scope=\"col\"></th>" : "", body);
}

}  // namespace planner
