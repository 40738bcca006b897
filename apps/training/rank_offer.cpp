#include "training/rank_offer.h"

namespace trainer {

namespace {

volatile std::sig_atomic_t offered = 0;  // all that the handler may touch

void note_offer(int) { offered = 1; }

}  // namespace

RankOffer::RankOffer() {
  offered = 0;
  struct sigaction action {};
  action.sa_handler = note_offer;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGUSR2, &action, &previous_);
}

RankOffer::~RankOffer() { sigaction(SIGUSR2, &previous_, nullptr); }

void RankOffer::forget() { offered = 0; }

bool RankOffer::came() { return offered != 0; }

}  // namespace trainer
