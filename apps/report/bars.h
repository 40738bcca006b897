// Bars of stacked parts, one below the other: a picture of numbers for which the page needs no program. It fits any
// width, and its words stay as large as they are.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

struct BarPart {
  std::string name = {};  // text
  size_t colour = 0;      // 0 to 9, of colours.css
  double value = 0;       // at least 0
};

struct Bar {
  std::string name = {};                                     // text
  std::vector<BarPart> parts = {};                           // from the left
  std::string result = {};                                   // text at its end
  std::string label = {};                                    // HTML after that
  double counted = std::numeric_limits<double>::infinity();  // what lies beyond this value is drawn faint
};

struct BarChart {
  std::string title = {};                          // text
  std::string note = {};                           // text beside it
  std::function<std::string(double)> format = {};  // of a value, as text
  std::vector<Bar> bars = {};
  std::optional<double> limit = std::nullopt;  // drawn as a line; bars are cut at twice and a half of it
  std::string limit_name = {};                 // text
};

// HTML: a figure. A single bar has the values of its parts in the key.
std::string bar_chart(const BarChart& chart);

}  // namespace trainer
