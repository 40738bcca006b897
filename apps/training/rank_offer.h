// SIGUSR2: ranks that an elastic job has lost are there again, and it may take them after the step that it is in.
#pragma once

#include <csignal>

namespace trainer {

// While it lives, the signal is noted, in this process and in those that it forks, from their first moment on: one that
// comes while ranks are starting counts for these. One at a time.
class RankOffer {
 public:
  RankOffer();
  ~RankOffer();
  RankOffer(const RankOffer&) = delete;
  RankOffer& operator=(const RankOffer&) = delete;

  // For what is forked next.
  void forget();

  // Of this process, or before it was forked.
  static bool came();

 private:
  struct sigaction previous_ {};
};

}  // namespace trainer
