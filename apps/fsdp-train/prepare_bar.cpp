#include "fsdp-train/prepare_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "console/bar.h"
#include "console/units.h"

namespace trainer {

namespace {

constexpr size_t kShortest = 5, kLongest = 40, kGap = 2;  // columns

}  // namespace

std::string prepare_bar(int64_t done, int64_t total, double seconds, int width, const Terminal& terminal) {
  const double part = static_cast<double>(done) / static_cast<double>(total);
  const double speed = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const double left = speed > 0 ? static_cast<double>(total - done) / speed : 0;
  const std::string percent = fmt::format("{:3.0f}%", 100 * part);
  // The least important comes first, and is left out first.
  std::vector<std::string> texts = {
      fmt::format("{} of {}", short_bytes(static_cast<size_t>(done)), short_bytes(static_cast<size_t>(total))),
      fmt::format("{}/s", short_bytes(static_cast<size_t>(speed))), fmt::format("{} left", duration(left))};

  const auto columns = static_cast<size_t>(std::max(width - 1, 1));
  auto needed = [&] {
    size_t sum = percent.size() + kGap;
    for (const std::string& text : texts) sum += kGap + text.size();
    return sum;
  };
  while (!texts.empty() && needed() + kShortest > columns) texts.erase(texts.begin());
  if (needed() + kShortest > columns) return percent.substr(0, columns);
  const std::string gap(kGap, ' ');
  std::string line = percent + gap + bar(part, std::min(columns - needed(), kLongest), terminal);
  for (const std::string& text : texts) line += gap + text;
  return line;
}

BarOnTerminal::~BarOnTerminal() {
  if (shown_ >= 0) draw("\r\033[K");
}

data::OnProgress BarOnTerminal::on_progress() {
  if (!terminal_.interactive) return {};
  return [this](int64_t done, int64_t total) { show(done, total); };
}

void BarOnTerminal::show(int64_t done, int64_t total) {
  constexpr double kPause = 0.05;  // seconds
  const double now = std::chrono::duration<double>(Clock::now() - began_).count();
  if (shown_ >= 0 && now - shown_ < kPause && done < total) return;
  shown_ = now;
  draw_line(prepare_bar(done, total, now, terminal_width(), terminal_));
}

}  // namespace trainer
