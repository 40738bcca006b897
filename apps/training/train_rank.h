// One rank of a training run.
#pragma once

#include <functional>

#include "data/corpus.h"
#include "options/options.h"
#include "training/job_memory.h"
#include "training/run_mesh.h"

namespace trainer {

// Every rank runs this; rank 0 alone has a report. Returns the signal that ended the run, 0 for none. A collective.
int train_rank(RunMesh& mesh, const RunOptions& options, const data::Corpus& corpus, JobMemory& job,
               const std::function<void()>& show_settings);

}  // namespace trainer
