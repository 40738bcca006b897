// How tables name units.
#pragma once

#include <string>
#include <vector>

#include "engine/report_tables.h"

namespace fsdp::engine {

// "encoder.layers.3" is layers.3 here, where all names with dots begin with "encoder.".
std::vector<UnitFacts> without_common_prefix(std::vector<UnitFacts> units);
// "root, blocks.0 to blocks.5, root"
std::string list_units(const std::vector<UnitFacts>& units, const std::vector<schedule::UnitId>& listed);
// The first of many, and how many more there are.
std::string list_first(std::vector<std::string> parts);

}  // namespace fsdp::engine
