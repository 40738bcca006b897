#include "fsdp/micro_batch.h"

#include "engine/model.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

MicroBatch::MicroBatch(ShardedModel& model, int64_t number)
    : model_(model.shared_model()), outer_(model_->begin_micro_batch(number)) {}

MicroBatch::~MicroBatch() { model_->end_micro_batch(outer_); }

}  // namespace fsdp
