// Steps in which some rank has no batch: it follows the ranks with one, because it owns a part of every parameter.
//
// The model's lock covers all calls.
#pragma once

#include "engine/model_gradients.h"
#include "engine/post_backward.h"
#include "engine/shard_writer.h"

namespace fsdp::engine {

class Join {
 public:
  // All outlive it.
  Join(Executor& executor, Units& units, schedule::Schedule& schedule, Agreement& agreement,
       PostBackward& post_backward)
      : executor_(executor), units_(units), schedule_(schedule), agreement_(agreement), post_backward_(post_backward) {}

  // True if any rank has a batch for the next backward. A collective.
  bool any_rank_has_batch(bool here);
  // In place of the forward and backward of the others. A collective. Returns the ranks' largest counts at the end.
  UnitCounts follow();

 private:
  UnitCounts listen();

  Executor& executor_;
  Units& units_;
  schedule::Schedule& schedule_;
  Agreement& agreement_;
  PostBackward& post_backward_;
};

}  // namespace fsdp::engine
