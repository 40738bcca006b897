// A simulation of training steps: the engine's own step driver, with a clock in place of tensors and ranks.
//
//   RankToSimulate rank{.facts = ..., .limits = schedule::limits_of(...), .durations = ..., .events = events_of(step)};
//   const SimulatedStep steady = simulate_steady_step(rank);
//
// The driver decides what is gathered, released, reduced and stepped, and in which buffer, as it does in a run. The
// simulation only knows how long each thing takes, and which ends what waits for. So communication overlaps with
// computation exactly where the engine lets it. Deterministic.
#pragma once

#include <span>
#include <vector>

#include "plan/step_events.h"
#include "schedule/performer.h"
#include "schedule/record.h"
#include "schedule/schedule.h"

namespace fsdp::plan {

// Times of a rank, in seconds. A list has an entry per unit; an empty one stands for zeros.
struct StepDurations {
  std::vector<double> gather = {};
  std::vector<double> reduce = {};
  std::vector<double> replicate = {};  // a sum's way to the replicas of the shard, behind the reduction
  std::vector<double> update = {};     // by the optimizer
  double message = 0;                  // a message of all ranks to all
  double launch = 0;                   // of the host, for each operator
  double slowdown = 0;                 // of computation beside communication: 0.1 takes 10 % longer
  double straggling = 1;               // operators and updates take so many times as long, on this rank alone
  bool runs_ahead = false;             // the host launches operators and does not wait for them, as with GPUs
  bool one_stream = false;             // gathers and reductions take turns; otherwise each kind has its own stream
  // True if another processor moves the bytes. If false, as between ranks in shared memory, the rank moves them itself,
  // where it waits for them.
  bool beside = true;
};

struct SimulatedAction {
  enum class Kind {
    Forward,   // computation on a unit, from the first operator that takes it to the last in a row
    Backward,  //
    Other,     // an end of the sum, for clipping
    Update,
    Publish,
    Gather,
    Reduce,
    WaitGather,
    WaitReduce,
    WaitReplicas,
    WaitPeers,      // until it is known whether a gather or a reduction can end before this rank goes on
    WaitReaders,    // of the shard, before it is written
    WaitAgreement,  // for a message of all ranks
    WaitMessage,    // of another rank of a pipeline
    Meet,           // all ranks of a pipeline wait for each other
    Open,           // the unit's gradients have a buffer from here on
    Release,
    EndOfBackward,  // its begin; what follows up to the next forward belongs to the end
  };
  enum class Stream { Compute, Gathers, Reductions };

  Kind kind;
  UnitId unit = -1;  // -1: it concerns none
  int buffer = -1;   // of Gather, Release, Open and Reduce
  double begin = 0, end = 0;
  Stream stream = Stream::Compute;
};

// Seconds of a step, which add up to `step`.
struct StepTotals {
  double step = 0;
  double compute = 0;
  double optimizer = 0;
  // Exposed communication: the computing stream waits.
  double gathers = 0;          // for full parameters
  double reductions = 0;       // for a gradient buffer
  double end_of_backward = 0;  // for reductions, replicas and agreement behind the last operator
  double idle = 0;             // for the host's launches, and for ranks that are late

  double exposed() const { return gathers + reductions + end_of_backward; }
};

struct SimulatedStep {
  std::vector<SimulatedAction> actions = {};  // in the order in which they begin on the host
  StepTotals totals = {};
  schedule::Step decisions = {};  // as ShardedModel::schedule() prints them
};

// One rank, or all ranks that are alike.
struct RankToSimulate {
  schedule::Facts facts = {};
  schedule::Limits limits = {};
  StepDurations durations = {};
  StepEvents events = {};                     // of any number of steps
  std::vector<schedule::Segment> order = {};  // StepDriver::give_order; empty: none is given
  // Ranks with the same number share a model: as many as its facts say, in their order, or one that stands for all.
  int model = 0;
};

// The steps of each rank: a step ends with an event Step, and events behind the last are one more. Throws Error for a
// program that the engine would refuse, for ranks that wait for each other, and for times that are negative or not
// finite.
std::vector<std::vector<SimulatedStep>> simulate(std::span<const RankToSimulate> ranks);

// The third step, which all later ones repeat. The first is recorded, and the end of the second still differs. The
// rank's events are one step, and the rank stands for all.
SimulatedStep simulate_steady_step(RankToSimulate rank);

}  // namespace fsdp::plan
