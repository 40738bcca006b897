// Where a rank leaves the cause of its failure for whoever watches it.
#pragma once

#include <filesystem>
#include <string>

namespace fsdp::world {

// Where it went wrong: here, or in a peer that this rank then missed.
enum class Origin { Here, Peer };

struct RankError {
  std::string message;
  Origin origin = Origin::Here;
};

// How the supervisor of local ranks is told: a file in the job's directory.
void write_error(const std::filesystem::path& directory, int rank, const RankError& error);
RankError read_error(const std::filesystem::path& directory, int rank);  // without a message when there is none

// How torchrun is told (TORCHELASTIC_ERROR_FILE).
// The form is of torch/distributed/elastic/multiprocessing/errors/error_handler.py.
void write_torchelastic_error(const std::filesystem::path& path, const std::string& message);

}  // namespace fsdp::world
