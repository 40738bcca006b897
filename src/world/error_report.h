// The ranks' errors as they are printed: each once.
//
// Ranks that fail together have a moment to report. Then one line names all that report the same. An error that only
// follows from another is not printed: one that quotes the other's message, or one of a rank that missed a peer, where
// another error is the cause. Used by the supervisor's one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/patience.h"
#include "world/error_file.h"

namespace fsdp::world {

struct ErrorOfRank {
  int rank = 0;
  RankError error;
};
// "[fsdp rank 1/4] MESSAGE" for an error of one rank, "[fsdp] ranks 0, 2: MESSAGE" and "[fsdp] all 4 ranks: MESSAGE"
// for one of several; each ends with a newline. `printed` are the errors before. Pure.
std::string error_lines(const std::vector<ErrorOfRank>& errors, int ranks, const std::vector<ErrorOfRank>& printed);

class ErrorReport {
 public:
  // `errors` outlives it.
  explicit ErrorReport(RankErrors& errors) : errors_(errors) {}

  // Returns the lines that are to be printed now. None: errors wait for others, or there are none. `may_report` is true
  // for a rank that has not ended.
  std::optional<std::string> due(const std::function<bool(int rank)>& may_report);
  // The caller has printed them.
  void note_printed();
  // While errors wait for those of other ranks.
  std::optional<std::chrono::milliseconds> until_next_look() const;

 private:
  RankErrors& errors_;
  std::vector<ErrorOfRank> waiting_;
  std::vector<ErrorOfRank> printed_;
  std::optional<Patience> patience_;
};

}  // namespace fsdp::world
