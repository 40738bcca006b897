// A curve drawn with braille characters, two by four dots each; or with ASCII, one dot each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

struct PlotOptions {
  int width = 80;          // columns of the whole; at least 30
  int height = 12;         // rows of the curve
  int64_t first_step = 1;  // that values[0] is of
  bool colour = false;
  bool utf8 = true;
};

// Means of runs of neighbours, all of one length but the last, as many as it takes for at most `most` of them.
std::vector<double> averaged(const std::vector<double>& values, size_t most);

// The mean of each value and its neighbours, as many as give a calm line.
std::vector<double> smoothed(const std::vector<double>& values);

// The smoothed values over their steps, with both axes labelled: lines of at most `width` columns, each ended by a
// newline. Values that are not finite are left out; without a finite one the result says so.
std::string plot(const std::vector<double>& values, const PlotOptions& options);

}  // namespace trainer
