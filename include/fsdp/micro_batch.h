// Several micro-batches of one model in flight at once, as in a pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace fsdp {

namespace engine {
class Model;
}
class ShardedModel;

// A scope that says to which micro-batch the forward or backward in it belongs.
//
//   { fsdp::MicroBatch scope(sharded, 0); loss0 = model->loss(batch0); }
//   { fsdp::MicroBatch scope(sharded, 1); loss1 = model->loss(batch1); }
//   { fsdp::MicroBatch scope(sharded, 0); loss0.backward(); }
//   { fsdp::MicroBatch scope(sharded, 1); loss1.backward(); }
//
// Without scopes a backward belongs to all forwards since the last one. With them each backward knows its own forward,
// however long ago: gradients are written in place, and buffers are broadcast once per micro-batch. The bits are the
// same. A number may be used again after its backward. The backward of a forward that lies before a step is an error.
//
// Everything in a scope counts as the micro-batch's, so leave evaluations outside. If its backward throws, the number
// may be used again. In a step in which some ranks have no batch, run each forward directly before its backward.
//
// Scopes may be nested; the inner one counts. Open them on the thread that trains, outside of a backward, in the same
// order on every rank.
class MicroBatch {
 public:
  // `number` is any, unique among the micro-batches in flight.
  MicroBatch(ShardedModel& model, int64_t number);
  ~MicroBatch();
  MicroBatch(const MicroBatch&) = delete;
  MicroBatch& operator=(const MicroBatch&) = delete;

 private:
  std::shared_ptr<engine::Model> model_;
  std::optional<int64_t> outer_;
};

}  // namespace fsdp
