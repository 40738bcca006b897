#include "fsdp-plan/search_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace planner {

namespace {

constexpr const char* kGoals[] = {"time", "money"};
constexpr int64_t kMostSearchedRanks = int64_t{1} << 20;

// The value of an option, which is taken out of the words.
std::optional<std::string> take_option(std::vector<std::string>& words, const std::string& flag,
                                       std::vector<std::string>& problems) {
  std::optional<std::string> value;
  for (size_t i = 1; i < words.size();) {
    const bool has_equals = words[i].starts_with(flag + "=");
    if (words[i] != flag && !has_equals) {
      ++i;
      continue;
    }
    if (!has_equals && i + 1 == words.size()) {
      problems.push_back(fmt::format("{} needs a value.", flag));
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (value) problems.push_back(fmt::format("{} is given twice.", flag));
    value = has_equals ? words[i].substr(flag.size() + 1) : words[i + 1];
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(i);
    words.erase(first, first + (has_equals ? 1 : 2));
  }
  return value;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

std::vector<int64_t> counts_of(const std::string& list, std::vector<std::string>& problems) {
  std::vector<int64_t> counts;
  for (const std::string& part : parts_of(list)) {
    int64_t count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc() || end != part.data() + part.size() || count < 1 || count > kMostSearchedRanks) {
      problems.push_back(fmt::format("--ranks is '{}'; it must be numbers from 1 to {}, with commas between them.",
                                     list, kMostSearchedRanks));
      return {};
    }
    if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  }
  return counts;
}

// "300e9", "1000000", "2T"
std::optional<double> tokens_in(const std::string& text) {
  static const std::map<char, double> kUnits = {{'k', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number) || !(number > 0)) return std::nullopt;
  if (rest != end) {
    const auto unit = kUnits.find(*rest);
    if (unit == kUnits.end() || rest + 1 != end) return std::nullopt;
    number *= unit->second;
  }
  return number >= 1 && number <= 1e18 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::vector<Switch> search_switches() {
  return {{"--for", "The goal: time, the shortest step, or money, the fewest seconds of devices.", "GOAL"},
          {"--tokens", "Tokens of the whole run, such as 300B. Its time and its cost are shown.", "COUNT"},
          {"--json", "Prints the best settings as JSON."}};
}

SearchArguments read_search(const std::vector<std::string>& given) {
  std::vector<std::string> words = given, problems;
  SearchArguments arguments;
  const auto goal = take_option(words, "--for", problems), tokens = take_option(words, "--tokens", problems);
  const auto ranks = take_option(words, "--ranks", problems);
  if (goal && std::ranges::find(kGoals, *goal) == std::end(kGoals))
    problems.push_back(fmt::format("--for is '{}'; it must be time or money.", *goal));
  arguments.wish.goal = goal == "money" ? trainer::SearchGoal::Money : trainer::SearchGoal::Time;
  if (tokens) {
    arguments.tokens = tokens_in(*tokens);
    if (!arguments.tokens)
      problems.push_back(fmt::format("--tokens is '{}'; it must be a number from 1 to 1e18, such as 300B.", *tokens));
  }
  if (ranks && ranks->find(',') != std::string::npos) {
    arguments.wish.ranks = counts_of(*ranks, problems);
    if (!arguments.wish.ranks.empty())
      words.insert(words.begin() + 1, {"--ranks", std::to_string(arguments.wish.ranks.front())});
  } else if (ranks) {
    words.insert(words.begin() + 1, {"--ranks", *ranks});
  }
  arguments.plan = read_plan(words, "search");
  arguments.plan.command = command_line(given, "search");
  arguments.plan.ranks_to_choose = arguments.wish.ranks;
  require_shape("search", arguments.plan);
  if (arguments.wish.ranks.size() > 1 && arguments.plan.options.hosts)
    problems.emplace_back("--hosts is given with several numbers of ranks. Leave one of them out.");
  arguments.plan.problems.insert(arguments.plan.problems.begin(), problems.begin(), problems.end());
  return arguments;
}

}  // namespace planner
