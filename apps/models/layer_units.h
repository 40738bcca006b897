// Units of transformer layers.
#pragma once

#include <fsdp/options.h>

#include <cstdint>

namespace models {

// Each unit holds at most `per_unit` layers, of Gpt2Block or LlamaBlock, that follow each other: layers 0 to
// `per_unit` - 1, and so on. All other parameters are one more unit. If one unit would hold all layers, and there are
// several, it holds the whole module. A module without layers has no unit: `shard` throws fsdp::Error.
fsdp::UnitPolicy layer_units(int64_t per_unit);

}  // namespace models
