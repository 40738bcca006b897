// Several sources of data, each with a weight: "bible.txt:3,code/:1".
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace data {

struct Source {
  std::string path;
  double weight = 1;  // its share of what is trained on is weight / the sum of all weights
};

// One path as it stands, of weight 1; or several, each with a colon and its weight, with commas between them. Throws
// fsdp::Error for a path without a weight among those that have one, and a weight that is no number above 0. Whether
// the paths are there shows when they are opened.
std::vector<Source> sources_in(const std::string& text);

// The text with each path in it replaced; weights stay as they are.
std::string with_source_paths(const std::string& text,
                              const std::function<std::string(const std::string& path)>& replace);

}  // namespace data
