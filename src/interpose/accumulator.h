// The end of a parameter's backward graph: hands its gradient to the listener instead of storing it in `grad`.
#pragma once

#include <torch/types.h>

#include <memory>

#include "interpose/listener.h"

namespace fsdp::interpose {

// Installs one on a leaf; it acts as long as the returned owner lives, or a graph that leads to it. Hooks on the
// parameter keep working. `backward(create_graph)` keeps no graph through it.
std::shared_ptr<void> install_accumulator(const torch::Tensor& parameter, std::shared_ptr<Link> link, int unit,
                                          int index);

}  // namespace fsdp::interpose
