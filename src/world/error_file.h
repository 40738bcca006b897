// The cause of a rank's failure, for its watcher.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "files/reading.h"

namespace fsdp::world {

// Where it went wrong: here, or in a peer that this rank then missed.
enum class Origin { Here, Peer };

struct RankError {
  std::string message;
  Origin origin = Origin::Here;
};

// How the supervisor of local ranks is told: memory that it shares with the ranks it forks. It prints the errors, so
// that an error of several ranks is printed once.
class RankErrors {
 public:
  explicit RankErrors(int ranks);
  ~RankErrors();
  RankErrors(const RankErrors&) = delete;
  RankErrors& operator=(const RankErrors&) = delete;

  // Once, by that rank. A very long message is cut. Returns when the supervisor has printed the error. If the
  // supervisor was killed before that, prints the error and ends the process, as the supervisor's death ends a rank.
  void report(int rank, const RankError& error);
  int ranks() const { return ranks_; }
  RankError read(int rank) const;  // without a message when there is none
  void note_printed(int rank);
  bool is_printed(int rank) const;
  // Can be read when an error was reported.
  int news() const { return news_.number(); }
  void read_news();
  // Once, by that rank, after its function has returned.
  void note_return(int rank);
  bool has_returned(int rank) const;

 private:
  struct Report;

  void wait_until_printed(const Report& report) const;

  int ranks_;
  pid_t supervisor_;
  files::Descriptor news_;
  files::Descriptor error_stream_;  // the supervisor's
  size_t bytes_;
  Report* reports_;  // by rank
};

// How torchrun is told (TORCHELASTIC_ERROR_FILE).
// The form is of torch/distributed/elastic/multiprocessing/errors/error_handler.py.
void write_torchelastic_error(const std::filesystem::path& path, const std::string& message);

}  // namespace fsdp::world
