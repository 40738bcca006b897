#include "world/host_list.h"

#include <charconv>
#include <optional>

#include "base/error.h"

namespace fsdp::world {

namespace {

// More would be a list gone wrong.
constexpr int64_t kMaxHosts = 1 << 20;

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

// The pieces between commas that are outside brackets.
std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      pieces.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
  }
  return pieces;
}

// "001-003" or "7", each number as wide as it is written.
std::vector<std::string> expand_range(std::string_view range, std::string_view list) {
  size_t dash = range.find('-');
  std::string_view first = range.substr(0, dash);
  std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  auto from = parse_number(first), to = parse_number(last);
  FSDP_CHECK(from && to && *from <= *to && *to - *from < kMaxHosts,
             "the host list '{}' has '{}' in brackets, expected a number or first-last.", list, range);
  std::vector<std::string> numbers;
  for (int64_t number = *from; number <= *to; ++number) numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  return numbers;
}

void expand_host(std::string prefix, std::string_view rest, std::string_view list, std::vector<std::string>& hosts) {
  size_t open = rest.find('[');
  if (open == std::string_view::npos) {
    prefix += rest;
    FSDP_CHECK(!prefix.empty() && prefix.find(']') == std::string::npos && hosts.size() < kMaxHosts,
               "the host list '{}' cannot be read, expected the form gpu[001-003,7],login.", list);
    hosts.push_back(std::move(prefix));
    return;
  }
  size_t close = rest.find(']', open);
  FSDP_CHECK(close != std::string_view::npos, "the host list '{}' has a '[' without a ']'.", list);
  for (std::string_view range : split_list(rest.substr(open + 1, close - open - 1)))
    for (const std::string& number : expand_range(range, list))
      expand_host(prefix + std::string(rest.substr(0, open)) + number, rest.substr(close + 1), list, hosts);
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> hosts;
  for (std::string_view piece : split_list(list)) expand_host("", piece, list, hosts);
  return hosts;
}

std::vector<int> expand_counts(std::string_view list) {
  std::vector<int> counts;
  for (std::string_view piece : split_list(list)) {
    size_t open = piece.find("(x");
    bool repeated = open != std::string_view::npos && piece.back() == ')';
    auto count = parse_number(piece.substr(0, open));
    auto times = repeated ? parse_number(piece.substr(open + 2, piece.size() - open - 3)) : std::optional<int64_t>(1);
    FSDP_CHECK(
        count && times && *count < kMaxHosts && *times < kMaxHosts && (repeated || open == std::string_view::npos),
        "the list of tasks per node '{}' has '{}', expected the form 2(x3),1.", list, piece);
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace fsdp::world
