// The files that a run writes in its folder beside its record and its checkpoints.
#pragma once

#include <array>
#include <filesystem>

namespace trainer {

// Relative to the run's folder. RUN/sample-N.txt come with them, and more files in RUN/model and RUN/traces.
inline constexpr std::array kRunFiles = {
    "config.json", "config.toml",       "tokenizer.json",          "tokenizer.model",
    "sample.txt",  "model/config.json", "model/model.safetensors", "model/tokenizer.json"};

// Removes what processes left that were killed while they wrote such a file (files::ReplacedFile). The caller holds the
// run's lock. Files that cannot be removed stay, and do no harm.
void remove_unfinished_files(const std::filesystem::path& run);

}  // namespace trainer
