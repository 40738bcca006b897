// The place of a sharded model in a larger one, of which other ranks hold other parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout/unit_layout.h"

namespace fsdp::engine {

struct WholeModel {
  // The part of a parameter that the model has: ranges along one dimension, one after the other.
  struct Division {
    std::vector<int64_t> shape;  // of the whole parameter
    size_t dim = 0;
    std::vector<layout::Range> ranges;
    bool operator==(const Division&) const = default;
  };
  std::map<std::string, Division> divisions = {};       // by the parameter's name
  std::map<std::string, std::string> first_names = {};  // of copies: the name of the first one in the whole model
  std::vector<std::string> blocks = {};                 // of the whole model, in order; none: the order is unknown
  std::vector<int> ranks = {};                          // of the model's group, as they are called in the job
};

}  // namespace fsdp::engine
