// SIGUSR2: ranks that an elastic job has lost are there again, and it may take them after the step that it is in.
#pragma once

#include <csignal>

namespace trainer {

// While it lives, the signal is noted. One at a time.
class RankOffer {
 public:
  RankOffer();
  ~RankOffer();
  RankOffer(const RankOffer&) = delete;
  RankOffer& operator=(const RankOffer&) = delete;

  bool came() const;

 private:
  struct sigaction previous_ {};
};

}  // namespace trainer
