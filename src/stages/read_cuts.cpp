#include <charconv>
#include <numeric>

#include "base/error.h"
#include "stages/cuts.h"

namespace fsdp::stages {
namespace {

constexpr int kMostStages = 1 << 16;

std::string example(int blocks, int stages) {
  if (stages < 1 || blocks < stages || stages > kMostStages) return "";
  std::vector<int> cuts(stages, blocks / stages);
  for (int i = 0; i < blocks % stages; ++i) ++cuts[i];
  return fmt::format(", for example {}", to_string(cuts));
}

// A number of at least 1; 0 if the text is none.
int number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number > 0 ? number : 0;
}

}  // namespace

std::vector<int> read_cuts(std::string_view text, int blocks, int stages) {
  std::vector<int> cuts;
  for (std::string_view rest = text; true;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t star = part.find('*');
    const int number = number_of(part.substr(0, star));
    const int times = star == std::string_view::npos ? 1 : number_of(part.substr(star + 1));
    FSDP_CHECK(number > 0 && times > 0,
               "cuts {:?}: found {:?}, expected blocks per stage as numbers of at least 1, or BLOCKS*TIMES, between "
               "commas{}",
               text, part, example(blocks, stages));
    FSDP_CHECK(times <= kMostStages - std::ssize(cuts), "cuts {:?} have more than {} stages, expected {}{}", text,
               kMostStages, stages, example(blocks, stages));
    cuts.insert(cuts.end(), static_cast<size_t>(times), number);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const auto sum = std::accumulate(cuts.begin(), cuts.end(), int64_t{0});
  FSDP_CHECK(std::ssize(cuts) == stages && sum == blocks,
             "cuts {:?} have {} blocks in {} stages, expected {} blocks in {} stages{}", text, sum, cuts.size(), blocks,
             stages, example(blocks, stages));
  return cuts;
}

std::string to_string(const std::vector<int>& cuts) {
  std::string text;
  for (size_t i = 0; i < cuts.size();) {
    size_t end = i + 1;
    while (end < cuts.size() && cuts[end] == cuts[i]) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cuts[i]);
    if (end - i > 1) text += fmt::format("*{}", end - i);
    i = end;
  }
  return text;
}

}  // namespace fsdp::stages
