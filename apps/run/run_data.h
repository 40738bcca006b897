// The data of a run, as its record has it.
#pragma once

#include "data/corpus.h"
#include "metrics/data_record.h"

namespace trainer {

DataRecord data_record_of(const data::Corpus& corpus, int64_t steps_done);

}  // namespace trainer
