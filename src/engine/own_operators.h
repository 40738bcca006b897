// A scope of the library's own operators: they make no graph, are no events of pieces, and are no part of a function
// whose results are kept.
#pragma once

#include <torch/types.h>

#include "interpose/piece_storage.h"

namespace fsdp::engine {

struct OwnOperators {
  torch::NoGradGuard no_grad;
  interpose::Unwatched unwatched;
};

}  // namespace fsdp::engine
