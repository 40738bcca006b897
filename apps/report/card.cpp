#include "report/card.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text.h"

namespace trainer {

std::string facts_card(const Facts& facts, const std::string& command, const std::string& heading) {
  std::string rows;
  for (const auto& [name, value] : facts) {
    if (!value.empty()) rows += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html(value));
  }
  if (rows.empty() && command.empty()) return "";
  if (!rows.empty()) rows = fmt::format("<dl class=\"facts\">\n{}</dl>\n", rows);
  const std::string line =
      command.empty()
          ? ""
          : fmt::format(
                "<div class=\"command\"><code>{}</code><button type=\"button\" class=\"copy\">copy</button></div>\n",
                html_words(command));
  return fmt::format("<article class=\"card\">\n{}{}{}</article>\n", heading, rows, line);
}

std::string html_words(const std::string& text) {
  std::string result;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    result += fmt::format("{}<span>{}</span>", at > 0 ? " " : "", html(text.substr(at, end - at)));
    at = end + 1;
  }
  return result;
}

}  // namespace trainer
