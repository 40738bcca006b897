#include "report/frame.h"

#include <fmt/format.h>

#include "report/assets.h"
#include "report/text.h"

namespace trainer {

namespace {

std::string programs_of(const PageFrame& frame) {
  std::string programs;
  if (!frame.data.empty())
    programs += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", frame.data);
  if (!frame.programs.empty()) programs += fmt::format("<script>\n'use strict';\n{}</script>\n", frame.programs);
  return programs;
}

}  // namespace

std::string framed_page(const PageFrame& frame) {
  return filled_asset(
      "frame.html",
      {{"title", html(frame.title)},
       {"subtitle", html(frame.subtitle)},
       {"label", frame.label},
       {"attributes", frame.reload_seconds > 0 ? fmt::format(" data-reload=\"{}\"", frame.reload_seconds) : ""},
       {"style", joined_assets({"colours.css", "style.css", "charts.css", "bars.css", "narrow.css", "print.css"})},
       {"main", frame.main},
       {"programs", programs_of(frame)}});
}

std::string filled_asset(std::string_view name, const AssetValues& values) {
  std::string_view text = asset(name);
  std::string result;
  for (size_t begin; (begin = text.find("{{")) != std::string_view::npos;) {
    const size_t end = text.find("}}", begin);
    result += text.substr(0, begin);
    result += values.at(std::string(text.substr(begin + 2, end - begin - 2)));
    text.remove_prefix(end + 2);
  }
  result += text;
  return result;
}

std::string joined_assets(std::initializer_list<const char*> names) {
  std::string result;
  for (const char* name : names) result += asset(name);
  return result;
}

}  // namespace trainer
