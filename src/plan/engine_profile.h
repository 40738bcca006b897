// An engine of training in numbers: its own costs, beside the model's operators. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp::plan {

// An engine that divides the data. Times are seconds of the host, and bytes are memory traffic of the device.
struct ShardedEngine {
  std::string name;
  double launch_forward = 40e-6, launch_backward = 15e-6;  // for a kernel
  bool is_fused = false;                                   // element-wise operators are compiled together
  double host_of_unit = 0.3e-3;                            // for a unit and forward; half as much more for a backward
  double reduction_bytes = 36;  // for a parameter around its reduce-scatter, in the stream of collectives
  double copy_bytes = 0;        // for a parameter and gather, in the computing stream
  double slowdown = 1.25;       // of computation beside a collective
  double update_bytes = 60;     // for a parameter in the optimizer
  double update_host = 0.5e-3, update_host_of_tensor = 7e-6;
  double clip_host = 0.5e-3, clip_host_of_tensor = 7e-6;
  double host_of_step = 10e-3;  // data and waits between steps
  double skew = 0.005;          // share of a step for each doubling of the ranks beyond a host
  bool is_divided = true;       // false: DDP
};

// libfsdp, fsdp1, fsdp2, ddp, yafsdp. Throws Error for another name. `is_compiled`: by torch.compile.
ShardedEngine sharded_engine(std::string_view name, bool is_compiled = false);
std::vector<std::string> sharded_engines();

// Megatron-DeepSpeed as of 2022: docs/simulator.md says how its numbers were fitted.
struct MegatronEngine {
  double launch_forward = 42.6e-6, launch_backward = 38.9e-6;
  double exposed = 0.282;  // share of the smaller of a unit's host and device time that is not hidden
  double stall = 262e-6;   // of the host for a sum of 8 tensor ranks, in a micro-batch of 1 sequence
  double meet = 180e-6;    // of the device, by which 8 tensor ranks come to a sum apart
  double host_of_micro_batch = 0.616e-3;
  double transfer = 47.7e-6;  // of both, for a message between stages beside its bytes
  double host_of_step = 1.27e-3;
  double update_bytes = 28.3;           // for a parameter
  double score_bytes = 36.3;            // for a score of attention, forward and backward
  double odd_vocabulary_rate = 0.4285;  // share of the rate of the head's products, whose vocabulary is not divided
};

}  // namespace fsdp::plan
