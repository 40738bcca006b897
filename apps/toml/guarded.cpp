#include "toml/guarded.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "files/reading.h"

namespace guarded_toml {

namespace {

// Walks over a text up to its first value or key that lies too deep. Strings and comments are passed over; whatever
// else is wrong, the parser says.
//
// The depth at a place is the number of brackets that are open there and of the dots since the last comma, or since the
// beginning of the line, within each of them. Dots of numbers count as well: there is one.
class DepthScan {
 public:
  explicit DepthScan(std::string_view text) : text_(text) {}

  // Where it is too deep first.
  std::optional<size_t> find() {
    while (at_ < text_.size() && depth_ <= kDeepest) take();
    return depth_ > kDeepest ? std::optional(at_ - 1) : std::nullopt;
  }

 private:
  void take() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return pass_string(c);
    if (c == '#') return pass_comment();
    ++at_;
    if (c == '.') {
      ++levels_.back();
      ++depth_;
    } else if (c == '[' || c == '{') {
      levels_.push_back(0);
      ++depth_;
    } else if ((c == ']' || c == '}') && levels_.size() > 1) {
      end_element();
      levels_.pop_back();
      --depth_;
    } else if (c == ',' || (c == '\n' && levels_.size() == 1)) {
      end_element();
    }
  }

  void end_element() {
    depth_ -= levels_.back();
    levels_.back() = 0;
  }

  void pass_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void pass_string(char quote) {
    const std::string three(3, quote);
    if (text_.substr(at_, 3) == three) return pass_long_string(quote, three);
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == '\\' && quote == '"') {
        ++at_;
      } else if (text_[at_] == quote) {
        ++at_;
        return;
      }
    }
  }

  // Up to two quotes may stand before the three that end it.
  void pass_long_string(char quote, const std::string& three) {
    for (at_ += 3; at_ < text_.size() && text_.substr(at_, 3) != three; ++at_) {
      if (text_[at_] == '\\' && quote == '"') ++at_;
    }
    for (int quotes = 0; quotes < 5 && at_ < text_.size() && text_[at_] == quote; ++quotes) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<int> levels_ = {0};  // dots of the element at hand, within each open bracket
};

toml::source_position position_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line_begin = before.rfind('\n') + 1;  // 0 in the first line
  return {.line = static_cast<toml::source_index>(std::count(before.begin(), before.end(), '\n') + 1),
          .column = static_cast<toml::source_index>(at - line_begin + 1)};
}

}  // namespace

toml::table parse(std::string_view text) {
  if (const std::optional<size_t> at = DepthScan(text).find()) {
    static const std::string problem = fmt::format("Keys, lists and tables nest deeper than {} levels", kDeepest);
    throw toml::parse_error(problem.c_str(), position_of(text, *at));
  }
  return toml::parse(text);
}

toml::table read(const std::filesystem::path& path, const std::string& name) {
  return parse(fsdp::files::read_whole(path, name, kMostBytes));
}

}  // namespace guarded_toml
