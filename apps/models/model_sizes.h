// Models that have a name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

// The published ones: gpt2, gpt2-medium, gpt2-large, gpt2-xl, llama-1b (Llama 3.2 1B), llama-7b (Llama 2 7B),
// llama-8b (Llama 3.1 8B); and small ones for CPUs, over the 256 bytes of a text: gpt2-tiny, gpt2-mini, llama-tiny,
// llama-mini. Their widths of heads and MLPs follow from the width where the family's rule gives them. None has
// dropout: GPT-2's 0.1 is for many epochs over one text, and fine-tuning reads it from the model's config.json.
std::vector<std::string> size_names();

// None for a name that is not among them.
std::optional<ModelConfig> config_of_size(const std::string& name);

}  // namespace models
