// Tensors outside of a module's parameters and buffers that share memory with a parameter which is to be sharded: a
// detach() in a member, a view, an average of the weights. They keep the values of now. How many tensors hold a storage
// tells that there are some.
#pragma once

#include <vector>

#include "fsdp/sharded_model.h"

namespace fsdp {

// To stderr, in one warning: parameters whose memory others hold. `ignored` are tensors of the module, too.
void warn_of_aliases(const std::vector<NamedUnit>& units, const NamedTensors& ignored);

}  // namespace fsdp
