// A step of engines that divide the data, in time: PyTorch's FSDP1, FSDP2 and DDP, and YaFSDP. Pure.
//
// The order of FSDP1 and FSDP2 is that of torch.distributed.fsdp. A unit is gathered while the one before it computes,
// at most two at once. In the backward the next unit is gathered before the gradients of this one are computed
// (BACKWARD_PRE). All collectives of a rank share one channel.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/streams.h"
#include "plan/work.h"

namespace fsdp::plan {

// A unit of the model. Times of collectives are those of the unit alone.
struct TimedUnit {
  WorkTime forward = {}, backward = {};
  double gather = 0, reduce = 0;
  int64_t layers = 0;  // that it holds
};

// Passes of units of at most `per_unit` layers that follow each other, from those of each layer.
std::vector<TimedUnit> units_of_layers(const std::vector<TimedUnit>& layers, int64_t per_unit);

struct ShardedStep {
  TimedUnit root;                // the embedding; its unit holds the head too, or the whole model
  WorkTime head = {};            // last norm, head and loss, forward and backward
  std::vector<TimedUnit> units;  // of layers, in the order of the forward; without collectives if root is the model
  int64_t micro_batches = 1;
  bool gathers = true;                   // parameters are divided
  bool gathers_again = true;             // in the backward
  bool gathers_each_micro_batch = true;  // or once per step
  bool reduces_each_micro_batch = true;  // or once per step
  double host_seconds_of_step = 0;       // before it begins
  double host_seconds_of_unit = 0;       // of the engine's own work, in a forward; half as much more in a backward
  double copy_seconds_of_layer = 0;      // of the device, out of the gathered buffer
  double update_seconds = 0;             // clipping and optimizer
  double launch = 0;                     // the host's seconds for one kernel
  StreamSlowdown slowdown = {};
};

struct StepSeconds {
  double step = 0;
  double compute = 0;                // operators of the model and the optimizer, without slowdown
  double exposed_communication = 0;  // by which the step would be shorter if collectives took no time
  double idle = 0;                   // in which the device waits for its host, or for other stages
};

StepSeconds time_of(const ShardedStep& step);

}  // namespace fsdp::plan
