// Losses over more than one micro-batch.
#pragma once

#include <fsdp/world.h>

#include <optional>
#include <vector>

#include "data/token_source.h"
#include "models/gpt.h"

namespace trainer {

// The mean of all ranks' losses of a step, added in the order of the micro-batches (data_order.h): a sum in any other
// order would have other digits on another number of ranks. A collective; every rank has as many.
double mean_loss(fsdp::World& world, const std::vector<float>& losses);

// The loss over windows spread evenly over the tokens; none when there are no tokens, or no window of them. All ranks
// call it together, as the gathers are collective, and run the same passes.
std::optional<double> validation_loss(gpt::Gpt& model, const data::TokenSource* tokens);

}  // namespace trainer
