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

// One path as it stands, of weight 1; or several, each with a colon and its weight, with commas between them. A text
// without weights is several paths if one of its parts exists. Throws fsdp::Error for a path without a weight among
// several, and for a weight that is not a number above 0. Missing paths are errors when they are opened.
std::vector<Source> sources_in(const std::string& text);

// The text with each path in it replaced; weights stay as they are.
std::string with_source_paths(const std::string& text,
                              const std::function<std::string(const std::string& path)>& replace);

}  // namespace data
