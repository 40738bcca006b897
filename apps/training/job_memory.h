// Facts about a job that outlive its ranks, for the launcher and for ranks forked after a failure.
//
// Made by the launcher before it forks.
#pragma once

#include <cstdint>

#include "run/shared_flag.h"
#include "run/shared_text.h"
#include "run/shared_value.h"

namespace trainer {

struct JobMemory {
  int64_t attempt = 0;                // of the ranks that are forked next; 0: the first
  bool offers_ranks = false;          // the launcher has more ranks for a job that lost some
  SharedFlag refused;                 // what was given cannot be trained with, and that was said
  SharedFlag bad_input;               // a file that was given, or the run folder, cannot be used
  SharedFlag hopeless;                // what failed would fail again
  SharedFlag saved;                   // the run has a checkpoint of this job's own
  SharedFlag left_later_steps;        // that the run had before this job
  SharedFlag trains;                  // ranks take signals as wishes now (StopRequest)
  SharedFlag hangs;                   // a rank of this host stands still
  SharedFlag grows;                   // the ranks ended so that the job can go on with more of them
  SharedValue<int> signal{0};         // that asked the job to end, and was obeyed
  SharedText run;                     // the folder of the run, once it is known
  SharedValue<int64_t> threads{0};    // of each rank, once it is known: their number decides bits
  SharedValue<double> peak_flops{0};  // of all ranks together, once it is measured

  // A rank that merely missed one that was killed may take it for bad input: that one's exit code is another.
  static constexpr int kThrew = 1;
  bool has_bad_input(int code) const { return bad_input.is_set() && code == kThrew; }
  // True if a job that failed with this exit code may be started again.
  bool may_restart(int code) const {
    return !refused.is_set() && !hopeless.is_set() && !has_bad_input(code) && signal.get() == 0;
  }
};

}  // namespace trainer
