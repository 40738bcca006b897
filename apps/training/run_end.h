// A rank's loop from its first step to the end of the run, and the files that a run writes last.
#pragma once

#include "planning/peak_flops.h"
#include "training/training_loop.h"

namespace trainer {

// Ends a run whose process was stopped after the last step: its export, and the removal of old checkpoints. A
// collective.
void settle_done_run(Training& training);

// Trains to the end, or to the signal that it returns, 0 for none. The last record of the report says how it ended.
// `report`: null on all ranks but the first.
int run_recorded(Training& training, MeasuredPeak& peak, const Resumed& resumed, Report* report);

}  // namespace trainer
