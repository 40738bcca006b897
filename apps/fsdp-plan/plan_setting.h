// The setting of a plan, in words.
#pragma once

#include <string>

#include "fsdp-plan/plan_arguments.h"

namespace planner {

// "8 ranks on 1 host of h100, full-shard, bf16, 8 sequences of 1,024 tokens per rank and step". Text.
std::string setting_sentence(const PlanArguments& arguments, const std::string& strategy);

// HTML: model, ranks, machine, strategy, dtypes, batch and the command line, as a card. `strategy` is text.
std::string setting_card(const PlanArguments& arguments, const std::string& strategy);

}  // namespace planner
