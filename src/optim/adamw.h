// AdamW's arithmetic, which Muon uses too.
#pragma once

#include "optim/rule.h"

namespace fsdp::optim {

// `name` is for messages.
Rule adamw_rule(const std::string& name, const AdamWOptions& options);

}  // namespace fsdp::optim
