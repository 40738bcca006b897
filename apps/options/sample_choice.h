// The source of `fsdp-train sample`: a run, a checkpoint or a model.
#pragma once

#include <filesystem>
#include <string>

namespace trainer {

// Exported: a folder of Hugging Face, with a config.json and weights. Run: a folder with a run's config.toml.
enum class SampleForm { Unknown, Run, Checkpoint, Exported };

SampleForm sample_form(const std::filesystem::path& named);

// RUN for a run, and for a checkpoint or a model that lies in it. It need not be one.
std::filesystem::path run_around(const std::filesystem::path& named);

// The configuration of the run that is sampled; empty: there is none, or an exported model says all.
std::string configuration_to_sample(const std::string& named);

}  // namespace trainer
