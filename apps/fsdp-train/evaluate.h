// Losses over more than one micro-batch.
#pragma once

#include <fsdp/world.h>

#include <optional>
#include <string_view>
#include <vector>

#include "models/language_model.h"

namespace trainer {

// The mean of all ranks' losses of a step, added in the order of the micro-batches (data_order.h): a sum in any other
// order would have other digits on another number of ranks. A collective; every rank has as many.
double mean_loss(fsdp::World& world, const std::vector<float>& losses);

// The loss over windows spread evenly over the text; none when the text has no window. All ranks call it together, as
// the gathers are collective, and run the same passes.
std::optional<double> validation_loss(models::LanguageModel& model, std::string_view text);

}  // namespace trainer
