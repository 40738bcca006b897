// A model of which a plan knows the parameters alone. Pure.
#pragma once

#include <fsdp/plan.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/parameter_list.h"

namespace trainer {

struct ListedModel {
  std::vector<fsdp::plan::Unit> units = {};  // as units_automatic makes them, by the names; `root` first, if any
  bool has_root = false;                     // a unit of all that lies in no block
  int64_t numel = 0;

  int64_t root_numel() const;
  int64_t largest_block_numel() const;
};

// `frozen`: patterns of names, as --freeze has them. Throws fsdp::Error for a list that no units can be made of.
ListedModel listed_model(const models::ParameterList& list, const std::vector<std::string>& frozen = {});

}  // namespace trainer
