// The file with the cause of a rank's failure, for its watcher.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace fsdp::world {

// Where it went wrong: here, or in a peer that this rank then missed.
enum class Origin { Here, Peer };

struct RankError {
  std::string message;
  Origin origin = Origin::Here;
};

// How the supervisor of local ranks is told: memory that it shares with the ranks it forks.
class RankErrors {
 public:
  explicit RankErrors(int ranks);
  ~RankErrors();
  RankErrors(const RankErrors&) = delete;
  RankErrors& operator=(const RankErrors&) = delete;

  // Once, by that rank. A very long message is cut.
  void write(int rank, const RankError& error);
  RankError read(int rank) const;  // without a message when there is none
  // Once, by that rank, after its function has returned.
  void note_return(int rank);
  bool has_returned(int rank) const;

 private:
  struct Report;

  size_t bytes_;
  Report* reports_;  // by rank
};

// How torchrun is told (TORCHELASTIC_ERROR_FILE).
// The form is of torch/distributed/elastic/multiprocessing/errors/error_handler.py.
void write_torchelastic_error(const std::filesystem::path& path, const std::string& message);

}  // namespace fsdp::world
