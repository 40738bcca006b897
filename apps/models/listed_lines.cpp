// Lists of parameters as texts.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <charconv>
#include <map>
#include <optional>

#include "files/printable.h"
#include "models/element_names.h"
#include "models/parameter_list.h"

namespace models {

namespace {

using fsdp::files::printable;

constexpr size_t kShownCharacters = 60;  // of a word in a message
constexpr size_t kShownProblems = 20;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_until_space(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && !is_space(text[end])) ++end;
  const std::string_view word = text.substr(0, end);
  text = trimmed(text.substr(end));
  return word;
}

std::string in_quotes(std::string_view text) {
  return "'" + printable(text.substr(0, kShownCharacters)) + (text.size() > kShownCharacters ? "...'" : "'");
}

// The sizes between commas, or between letters x. None for anything else.
std::optional<std::vector<int64_t>> sizes_in(std::string_view text, char between) {
  std::vector<int64_t> sizes;
  text = trimmed(text);
  while (!text.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || text.front() == '-') return std::nullopt;
    sizes.push_back(size);
    text = trimmed(text.substr(static_cast<size_t>(end - text.data())));
    if (text.empty()) break;
    if (text.front() != between) return std::nullopt;
    text = trimmed(text.substr(1));
    if (text.empty() && between == 'x') return std::nullopt;  // a tuple of one has a comma at its end
  }
  return sizes;
}

// Takes the shape from the beginning of `text`. None if there is none.
std::optional<std::vector<int64_t>> take_shape(std::string_view& text) {
  constexpr std::string_view kSize = "torch.Size(";
  const bool is_size = text.starts_with(kSize);
  if (is_size) text.remove_prefix(kSize.size());
  const char open = text.empty() ? '\0' : text.front();
  if (open != '[' && open != '(') {
    const std::string_view word = take_until_space(text);
    return word.empty() ? std::nullopt : sizes_in(word, 'x');
  }
  const size_t end = text.find(open == '[' ? ']' : ')');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view within = text.substr(1, end - 1);
  text = trimmed(text.substr(end + 1));
  if (is_size) {
    if (!text.starts_with(')')) return std::nullopt;
    text = trimmed(text.substr(1));
  }
  return sizes_in(within, ',');
}

class LineReader {
 public:
  explicit LineReader(std::string origin) : origin_(std::move(origin)) {}

  void read(std::string_view line) {
    ++number_;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) return;
    std::string_view name = take_until_space(line);
    if (name.ends_with(':') && name.size() > 1) name.remove_suffix(1);
    const auto [place, is_new] = lines_.emplace(name, number_);
    if (!is_new)
      return refuse(fmt::format("{} is on line {} already. Give each name once", in_quotes(name), place->second));
    if (line.starts_with('=')) return add_tied(trimmed(line.substr(1)), name);
    add(name, line);
  }

  ParameterList take() {
    if (!problems_.empty()) throw fsdp::Error(fmt::format("{}", fmt::join(problems_, "\n")));
    return std::move(list_);
  }

 private:
  void refuse(const std::string& problem) {
    if (problems_.size() == kShownProblems) problems_.push_back(fmt::format("{}: and other lines.", origin_));
    if (problems_.size() < kShownProblems)
      problems_.push_back(fmt::format("{}, line {}: {}.", origin_, number_, problem));
  }

  void add_tied(std::string_view other, std::string_view name) {
    const auto place = lines_.find(std::string(other));
    if (place == lines_.end() || other == name)
      return refuse(fmt::format("found = {}, expected the name of a parameter on a line before. Name that one first",
                                in_quotes(other)));
    ++list_.tied;
  }

  void add(std::string_view name, std::string_view line) {
    const std::string given(line);
    const auto shape = take_shape(line);
    if (!shape)
      return refuse(
          fmt::format("found the shape {} of {}, expected sizes from 0 to 2^63 - 1, such as [4096, 1024], "
                      "4096x1024 or [] for a scalar",
                      in_quotes(given), in_quotes(name)));
    bool is_buffer = false;
    while (!line.empty()) {
      const std::string_view word = take_until_space(line);
      const std::optional<ElementKind> kind = element_kind(word);
      if (word != "buffer" && !kind)
        return refuse(
            fmt::format("found {} behind the shape of {}, expected a dtype such as fp32 or bf16, or the word "
                        "buffer",
                        in_quotes(word), in_quotes(name)));
      is_buffer = is_buffer || !kind || *kind == ElementKind::Whole;
    }
    if (is_buffer) {
      ++list_.buffers;
    } else {
      list_.parameters.push_back({std::string(name), *shape});
    }
  }

  std::string origin_;
  ParameterList list_;
  std::map<std::string, int64_t, std::less<>> lines_;  // by name
  std::vector<std::string> problems_;
  int64_t number_ = 0;
};

}  // namespace

ParameterList parse_parameter_list(std::string_view text, const std::string& origin) {
  LineReader reader(origin);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    reader.read(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  ParameterList list = reader.take();
  check_listed(list, origin);
  return list;
}

}  // namespace models
