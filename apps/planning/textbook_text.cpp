#include "planning/textbook_text.h"

#include <fmt/format.h>

#include <cmath>

#include "console/paragraph.h"
#include "console/units.h"
#include "files/json.h"

namespace trainer {

namespace {

using fsdp::files::OrderedJson;

constexpr int kPublishedDigits = 4, kOurDigits = 3;
constexpr size_t kTopicTextColumn = 28;

// "  ZeRO        31.4 GB     4 P + 12 P / N = 31.4"
std::string figure_line(const std::string& name, const std::string& figure, const std::string& unit,
                        const std::string& text, size_t width) {
  return paragraph(fmt::format("  {:<8}{:>7} {}", name, figure, figure == "none" ? "" : unit), text, kTopicTextColumn,
                   width);
}

std::string row_text(const TextbookRow& row, size_t width) {
  const std::string recomputed = figure_text(row.recomputed, kPublishedDigits);
  std::string text = "  " + row.what + "\n";
  text += figure_line(row.source, figure_text(row.published, kPublishedDigits), row.unit,
                      fmt::format("{} = {}", row.formula, recomputed), width);
  return text + figure_line("ours", figure_text(row.ours, kOurDigits), row.unit, row.why, width);
}

OrderedJson number(double figure) { return std::isfinite(figure) ? OrderedJson(figure) : OrderedJson(nullptr); }

OrderedJson row_json(const TextbookRow& row) {
  return {{"id", row.id},
          {"what", row.what},
          {"source", row.source},
          {"formula", row.formula},
          {"unit", row.unit},
          {"published", number(row.published)},
          {"recomputed", number(row.recomputed)},
          {"ours", number(row.ours)},
          {"why", row.why}};
}

}  // namespace

std::string figure_text(double figure, int digits) {
  if (!std::isfinite(figure)) return "none";
  if (std::abs(figure) >= std::pow(10, digits - 1)) return grouped(std::llround(figure));
  return fmt::format("{:.{}g}", figure, digits);
}

std::string textbook_text(const std::vector<TextbookTopic>& topics, size_t width) {
  std::string text;
  for (const TextbookTopic& topic : topics) {
    if (!text.empty()) text += "\n";
    text += topic.title + "\n" + paragraph("", topic.setting, 4, width);
    for (const TextbookRow& row : topic.rows) text += "\n" + row_text(row, width);
  }
  return text;
}

std::string textbook_json(const std::vector<TextbookTopic>& topics) {
  OrderedJson all = OrderedJson::array();
  for (const TextbookTopic& topic : topics) {
    OrderedJson rows = OrderedJson::array();
    for (const TextbookRow& row : topic.rows) rows.push_back(row_json(row));
    all.push_back({{"title", topic.title}, {"setting", topic.setting}, {"rows", std::move(rows)}});
  }
  return OrderedJson{{"topics", std::move(all)}}.dump(2) + "\n";
}

}  // namespace trainer
