// A plan of activations for people.
#pragma once

#include <fsdp/activation_memory.h>

#include <string>

namespace trainer {

// "activations take 1.21 GB at most: 3 layers keep all, 4 the results of products, 5 their input"
std::string activation_plan_text(const fsdp::ActivationPlan& plan);

}  // namespace trainer
