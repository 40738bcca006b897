// The gradient of a piece: `piece.grad()`, as users and their optimizers read it.
//
// Backwards of no_sync scopes leave gradients with each rank, unreduced, and the piece has none of them yet. An
// optimizer skips a parameter whose grad() is undefined, without calling an operator that the library would see. So
// grad() itself announces that it is read while such gradients wait (Link::local_sums).
#pragma once

#include <torch/types.h>

#include <memory>

#include "interpose/listener.h"

namespace fsdp::interpose {

// Makes grad() and mutable_grad() of `piece` announce themselves to the link's listener. The piece loses the gradient
// and the place in autograd's graph that it has.
void announce_gradient_reads(const torch::Tensor& piece, const std::shared_ptr<Link>& link);

// For the library: the gradient itself, which may be undefined. Not announced.
torch::Tensor& gradient_of(const torch::Tensor& piece);

}  // namespace fsdp::interpose
