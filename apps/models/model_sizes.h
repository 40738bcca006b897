// Models that have a name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

// The names of models that fsdp-train trains, with their aliases at the end. They are the published ones of
// published_sizes.h, and small ones for CPUs, over the 256 bytes of a text: gpt2-tiny, gpt2-mini, llama-tiny,
// llama-mini. Their widths of heads and MLPs follow from the width where the family's rule gives them. None has
// dropout: GPT-2's 0.1 is for many epochs over one text, and fine-tuning reads it from the model's config.json.
std::vector<std::string> size_names();

// The same names, and after them the models for plans alone (is_for_plans_alone).
std::vector<std::string> planned_names();

// None for a name that is not among planned_names.
std::optional<ModelConfig> config_of_size(const std::string& name);

// "llama2-7b" for "llama-7b", which is another name of it; a name that is no alias is its own.
std::string name_behind(const std::string& name);

}  // namespace models
