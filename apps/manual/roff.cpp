#include "manual/roff.h"

#include <fmt/format.h>

#include <sstream>

namespace trainer {

namespace {

std::string roff_sign(char c) {
  switch (c) {
    case '\\':
      return "\\e";
    case '-':
      return "\\-";
    case '\'':
      return "\\(aq";
    case '`':
      return "\\(ga";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    default:
      return std::string(1, c);
  }
}

}  // namespace

std::string roff_text(const std::string& text) {
  std::string result = text.starts_with('.') ? "\\&" : "";  // which would be a request
  for (const char c : text) result += roff_sign(c);
  return result;
}

std::string roff_bold(const std::string& text) { return fmt::format("\\fB{}\\fR", roff_text(text)); }
std::string roff_italic(const std::string& text) { return fmt::format("\\fI{}\\fR", roff_text(text)); }

std::string roff_item(const std::string& tag, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", tag, roff_text(text));
}

std::string roff_lines(const std::string& lines) {
  std::string result = ".RS 4\n.nf\n";
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) result += roff_text(line) + "\n";
  return result + ".fi\n.RE\n";
}

}  // namespace trainer
