// SIGUSR2: ranks that an elastic job has lost are there again, and it may take them after the step that it is in.
#pragma once

#include <csignal>

namespace trainer {

// While it lives, the signal is noted, in this process and from the first moment in its forked ones. So a signal during
// the start of ranks counts for them. One at a time.
class RankOffer {
 public:
  RankOffer();
  ~RankOffer();
  RankOffer(const RankOffer&) = delete;
  RankOffer& operator=(const RankOffer&) = delete;

  // For what is forked next.
  void forget();

  // In this process, or before it was forked.
  static bool came();

 private:
  struct sigaction previous_ {};
};

}  // namespace trainer
