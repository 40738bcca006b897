// Writes what --export asks for.
#pragma once

#include <filesystem>

#include "training/training.h"

namespace trainer {

// RUN/model.
std::filesystem::path model_folder(const RunOptions& options);

// Writes it as transformers reads it: the weights, with adapters merged into them, and config.json; and the adapters to
// RUN/adapter, as the Python package peft reads them. A collective. Throws fsdp::Error.
void export_model(Training& training);

}  // namespace trainer
