// How the parameters of these models lie in Hugging Face's files.
#pragma once

#include <fsdp/checkpoint.h>

#include "models/model_config.h"

namespace models {

// For fsdp::load_pretrained and fsdp::save_pretrained. Names may have the prefix of a body under a head
// ("transformer.", "model."). GPT-2's four matrices per layer are transposed. Skipped are masks and frequencies of old
// files, and a copy of the embedding that is the head. From GPT-2's positions, those of the context are loaded. Files
// have no adapters: these stay as they are when files are read, and are merged into the matrices that are written.
fsdp::PretrainedOptions pretrained_options(const ModelConfig& config);

// For fsdp::save_pretrained: the adapters alone, as the Python package peft calls them (https://pypi.org/project/peft).
fsdp::PretrainedOptions adapter_options(const ModelConfig& config);

}  // namespace models
