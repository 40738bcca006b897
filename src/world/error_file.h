// Where a rank leaves the cause of its failure for whoever watches it.
#pragma once

#include <filesystem>
#include <string>

namespace fsdp::world {

// How the supervisor of local ranks is told.
std::filesystem::path error_path(const std::filesystem::path& directory, int rank);
void write_error(const std::filesystem::path& path, const std::string& message);
std::string read_error(const std::filesystem::path& path);  // empty when there is none

// How torchrun is told (TORCHELASTIC_ERROR_FILE).
// The form is of torch/distributed/elastic/multiprocessing/errors/error_handler.py.
void write_torchelastic_error(const std::filesystem::path& path, const std::string& message);

}  // namespace fsdp::world
