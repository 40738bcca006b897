#include "console/paragraph.h"

#include <sstream>

namespace trainer {

std::string paragraph(const std::string& left, const std::string& text, size_t indent, size_t width) {
  std::string result, line = "  " + left;
  auto end_line = [&] {
    result += line + "\n";
    line.clear();
  };
  if (!left.empty() && line.size() + 2 > indent) end_line();
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() > indent && line.size() + 1 + word.size() > width) end_line();
    if (line.size() > indent) {
      line += ' ';
    } else {
      line.resize(indent, ' ');
    }
    line += word;
  }
  return result + line + "\n";
}

}  // namespace trainer
