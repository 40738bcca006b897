// Weights of a model that is not quite this one, with --no-strict.
#pragma once

#include <fsdp/checkpoint.h>

#include <functional>
#include <string>

#include "options/options.h"

namespace trainer {

// "begin anew: lm_head.weight; passed over: score.weight; only the first rows of wte.weight", a few names of each kind;
// empty: there are no differences.
std::string text_of(const fsdp::LoadDifferences& differences);

// Calls `load` with what --no-strict allows, and returns in what the weights differed from the model. Where it is not
// given, an Error that `load` throws for such a difference names it.
fsdp::LoadDifferences load_leniently(const RunOptions& options,
                                     const std::function<void(bool strict, fsdp::LoadDifferences&)>& load);

}  // namespace trainer
