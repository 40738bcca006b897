#include "metrics/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace trainer {

namespace {

// Dots, 2 x 4 per character of braille, one per character of ASCII.
class Canvas {
 public:
  Canvas(int columns, int rows, bool braille)
      : columns_(columns), rows_(rows), braille_(braille), cells_(static_cast<size_t>(columns * rows), 0) {}

  int width() const { return braille_ ? 2 * columns_ : columns_; }
  int height() const { return braille_ ? 4 * rows_ : rows_; }

  void set(int x, int y) {
    // Bits of a braille pattern by row and column: Unicode Standard, block U+2800.
    constexpr unsigned char kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (braille_) {
      cells_[place(x / 2, y / 4)] |= kBits[y % 4][x % 2];
    } else {
      cells_[place(x, y)] = 1;
    }
  }
  void vertical(int x, int y_from, int y_to) {
    for (int y = std::min(y_from, y_to); y <= std::max(y_from, y_to); ++y) set(x, y);
  }

  std::string row(int index) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const unsigned char bits = cells_[place(column, index)];
      if (braille_) {
        text += {'\xe2', static_cast<char>(0xa0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3f))};
      } else {
        text += bits != 0 ? '*' : ' ';
      }
    }
    return text;
  }

 private:
  size_t place(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  int columns_, rows_;
  bool braille_;
  std::vector<unsigned char> cells_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Range range_of(const std::vector<double>& values) {
  Range range;
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  if (range.low == range.high) return {range.low - 0.5, range.high + 0.5};  // a flat line in the middle
  return range;
}

void draw(Canvas& canvas, const std::vector<double>& values, const Range& range) {
  const double scale = (canvas.height() - 1) / (range.high - range.low);
  int previous_y = -1;
  for (int x = 0; x < canvas.width(); ++x) {
    const double place = static_cast<double>(x) / (canvas.width() - 1) * static_cast<double>(values.size() - 1);
    const auto before = static_cast<size_t>(place);
    const auto after = std::min(before + 1, values.size() - 1);
    const double value = std::lerp(values[before], values[after], place - std::floor(place));
    if (!std::isfinite(value)) continue;
    const int y = static_cast<int>(std::lround((range.high - value) * scale));
    canvas.vertical(x, previous_y < 0 ? y : previous_y, y);
    previous_y = y;
  }
}

std::string x_axis(int margin, int columns, int64_t first, int64_t last) {
  const std::string left = fmt::format("{}", first), middle = fmt::format("{}", (first + last) / 2);
  const std::string right = fmt::format("{}", last);
  std::string labels(static_cast<size_t>(columns), ' ');
  labels.replace(labels.size() - right.size(), right.size(), right);
  if (last - first >= 2) labels.replace((labels.size() - middle.size()) / 2, middle.size(), middle);
  if (last > first) labels.replace(0, left.size(), left);
  return fmt::format("{:>{}}{}\n", "", margin + 1, labels);
}

}  // namespace

std::vector<double> averaged(const std::vector<double>& values, size_t most) {
  const size_t together = (values.size() + most - 1) / most;
  if (together <= 1) return values;
  std::vector<double> means;
  for (size_t first = 0; first < values.size(); first += together) {
    const size_t end = std::min(first + together, values.size());
    const double sum = std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(first),
                                       values.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
    means.push_back(sum / static_cast<double>(end - first));
  }
  return means;
}

std::vector<double> smoothed(const std::vector<double>& values) {
  const auto reach = static_cast<int64_t>(values.size() / 60);
  const auto count = static_cast<int64_t>(values.size());
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t near = std::min({reach, i, count - 1 - i});  // symmetric, so that the ends stay where they are
    double sum = 0;
    for (int64_t j = i - near; j <= i + near; ++j) sum += values[static_cast<size_t>(j)];
    result.push_back(sum / static_cast<double>(2 * near + 1));
  }
  return result;
}

std::string plot(const std::vector<double>& values, const PlotOptions& options) {
  // More points than dots cost time, the square of their number, and do not show.
  const std::vector<double> curve = smoothed(averaged(values, 10'000));
  const Range range = range_of(curve);
  if (!(range.low < range.high)) return "(no finite loss to draw)\n";
  constexpr int kMargin = 9;  // the labels and a space
  const int columns = std::max(options.width, 30) - kMargin - 1;
  Canvas canvas(columns, options.height, options.utf8);
  draw(canvas, curve, range);
  std::string text;
  for (int row = 0; row < options.height; ++row) {
    const bool labelled = row % 3 == 0 || row == options.height - 1;
    const double value = range.high - (range.high - range.low) * row / std::max(options.height - 1, 1);
    const char* axis = !options.utf8 ? "|" : labelled ? "┤" : "│";
    text += fmt::format("{:>{}} {}", labelled ? fmt::format("{:.3g}", value) : "", kMargin - 1, axis);
    text += options.colour ? "\033[36m" + canvas.row(row) + "\033[0m\n" : canvas.row(row) + "\n";
  }
  const auto last_step = options.first_step + static_cast<int64_t>(values.size()) - 1;
  return text + x_axis(kMargin, columns, options.first_step, last_step);
}

}  // namespace trainer
