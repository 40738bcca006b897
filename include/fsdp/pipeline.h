// Pipelines: the blocks of a model divided among ranks. Each rank makes, holds and runs the blocks of its stages.
//
//   std::vector<fsdp::PipelineBlock> blocks{fsdp::pipeline_block<EmbeddingImpl>("embedding", options)};
//   for (int i = 0; i < 12; ++i)
//     blocks.push_back(fsdp::pipeline_block<BlockImpl>("blocks." + std::to_string(i), options));
//   blocks.push_back(fsdp::pipeline_block<HeadImpl>("head", options));
//
//   fsdp::Pipeline pipeline(blocks, world);
//   torch::optim::AdamW optimizer(pipeline.stage().parameters());
//   const double loss = pipeline.step(inputs, targets, cross_entropy);   // one tensor for each micro-batch
//   optimizer.step();
//
// docs/parallelism.md says when a pipeline is worth it.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fsdp/movable.h"
#include "fsdp/trace.h"
#include "fsdp/world.h"

namespace fsdp {

namespace pipeline {
class Runner;
}

// Several tensors: those between two blocks, or one for each micro-batch.
using Tensors = std::vector<torch::Tensor>;

// One block of the model. Blocks run one after the other: the first takes the micro-batch's input, each other one the
// tensors that the block before returned.
struct PipelineBlock {
  std::string name;  // unique; parameters are NAME.weight, ... A name such as "blocks.0" is a path of submodules
  // Makes the module, on the CPU. It is called on every rank, within deferred_init (deferred_init.h).
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  // Runs the module. Tensors are dense, and 1 to 32. Those between stages may have any shapes and dtypes, and need
  // no gradient; they may differ between micro-batches and steps. They arrive with their strides, because bits may
  // depend on strides: a part of a larger tensor takes the memory of its gaps, which contiguous() avoids. No later
  // forward may write a returned tensor in place. The last block returns one tensor.
  std::function<Tensors(torch::nn::Module& module, const Tensors& inputs)> forward;
  // Own parameter -> "block.parameter" of a block before, to which it is tied.
  std::map<std::string, std::string> shares = {};
  // The time of its forward and backward, in any unit. Stages get equal sums of costs. 0 in every block: blocks count
  // as equal. The first step measures them (PipelineReport::costs).
  double cost = 0;
};

namespace detail {

Tensors as_tensors(torch::Tensor tensor);
inline Tensors as_tensors(Tensors tensors) { return tensors; }
// Throws Error unless the block got one tensor.
const torch::Tensor& only_input(const Tensors& inputs, const char* block);

}  // namespace detail

// A block whose module is `Impl(arguments...)`, for example torch::nn::LinearImpl. Its forward takes a Tensor or
// Tensors, and returns either.
template <typename Impl, typename... Arguments>
PipelineBlock pipeline_block(const std::string& name, Arguments... arguments) {
  static_assert(std::is_base_of_v<torch::nn::Module, Impl>,
                "name the module's class itself, such as torch::nn::LinearImpl");
  const auto forward = [name](torch::nn::Module& module, const Tensors& inputs) {
    Impl& impl = dynamic_cast<Impl&>(module);
    if constexpr (requires { impl.forward(inputs); }) {
      return detail::as_tensors(impl.forward(inputs));
    } else {
      return detail::as_tensors(impl.forward(detail::only_input(inputs, name.c_str())));
    }
  };
  return {.name = name, .make = [arguments...] { return std::make_shared<Impl>(arguments...); }, .forward = forward};
}

// The order in which a rank runs its stages' forwards and backwards. p ranks, m micro-batches; F, B, W: times of a
// forward, an input gradient and a weight gradient. docs/parallelism.md draws them.
enum class PipelineSchedule {
  OneAtATime,             // one rank works at a time: idle for (p - 1) / p of the step
  AllForwardAllBackward,  // GPipe: idle for (p - 1) / (m + p - 1). Holds activations of m micro-batches
  OneForwardOneBackward,  // the same idle share; holds activations of at most p micro-batches
  Interleaved,            // with v stages per rank: idle for (p - 1) / (v m + p - 1)
  ZeroBubble,             // ZB-H1: weight gradients fill the idle time, a third of which is left
};

// How often the parameters of a sharded stage are gathered. The bits are the same.
enum class GatherEvery {
  // As the strategy says: each forward and each backward of a micro-batch gathers the units that it uses, one after the
  // other and ahead of their use. With FullShard, Options::buffers units are full at once.
  MicroBatch,
  // Once: the schedule gathers all units of a stage one pass before the stage's first, and releases them after its last
  // pass that reads parameters. Fewer messages; the whole stage is full meanwhile. For strategies that divide
  // parameters.
  Step,
};

// Options of Pipeline. The same on every rank.
struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;  // the order of passes
  // Stage s is on rank s % axis.size(). More than 1: Interleaved, AllForwardAllBackward, OneAtATime or ZeroBubble.
  int stages_per_rank = 1;
  // Blocks of each stage. Empty: such that the largest sum of costs is least.
  std::vector<int> cuts = {};
  GatherEvery gathers = GatherEvery::MicroBatch;  // of stages that are sharded
  // If false, the backward is that of each micro-batch's loss itself, and ShardedModel::set_gradient_divisor divides
  // the sum of gradients, once: bit for bit as in a loop that does so. The divisor counts the micro-batches of all
  // ranks.
  bool divides_loss = true;
};

// Reads blocks per stage: "4,4,3,1", or "4*2,3,1", in which "4*2" are two stages of 4 blocks. Throws Error, with cuts
// that would work, unless they are `stages` stages of at least 1 block that have `blocks` blocks together.
std::vector<int> pipeline_cuts(const std::string& text, int blocks, int stages);
// The blocks per stage such that the largest sum of costs of a stage is least. Throws Error for fewer blocks than
// stages, no stages, or a cost that is not from 0 to 1e100.
std::vector<int> pipeline_cuts(const std::vector<double>& costs, int stages);
// The shortest text of such cuts: "4*2,3,1".
std::string pipeline_cuts_text(const std::vector<int>& cuts);

// The last step of a pipeline.
struct PipelineReport {
  std::vector<int> cuts;           // blocks of each stage
  int micro_batches = 0;           // of the step
  double step_seconds = 0;         // the slowest rank's
  double idle_share = 0;           // mean share of step_seconds in which a rank ran no pass
  double idle_share_formula = 0;   // of the schedule, if each pass takes the mean time of its kind
  std::vector<double> costs;       // seconds of a forward and a backward of each block, measured in the first step
  std::vector<int> measured_cuts;  // the cuts of equal measured costs
  // The schedule: a line per rank. "2F0" is stage 2, forward, micro-batch 0. PyTorch's text
  // (torch.distributed.pipelining), with sends and receives, and with the gathers (UNSHARD) and releases (RESHARD) of
  // GatherEvery::Step. Gathers and reductions inside of passes have no actions of their own.
  std::string schedule;
};

// A model of blocks, divided among the ranks of `axis`: bit for bit the training of one process.
//
// - Parameters have the values of an ordinary construction of all blocks, one after the other, and so has the state of
//   LibTorch's default generator afterwards.
// - `step` is equal to a loop over the micro-batches on one process, for any number of ranks and any schedule:
//   gradients are added in micro-batch order. For random numbers, a step draws one number from the default generator;
//   that of the first rank counts. Each block's forward then draws from generators seeded by it, the micro-batch and
//   the block. If stages are sharded, micro-batches are numbered over all ranks of a stage: round by round, the ranks
//   in their order. Numbers that a backward draws are not covered. First values follow from each rank's own generator,
//   so seed all ranks alike before the construction.
// - A caller's autocast holds for blocks and loss. With a tied parameter, switch its cache off
//   (at::autocast::set_autocast_cache_enabled): in one process the cache adds the blocks' gradients in bf16.
// - A tied parameter has a copy in each block. Register hooks on the first block's copy: it gets the whole gradient. In
//   a sharded stage each block that shares a parameter uses it, or clipping and steps throw Error. Gradients are added
//   in the order of one process's backward, the last block's first. After a step all copies hold the same sum, so their
//   optimizers step alike. A norm over gradients has to count one copy.
//
// On CPUs the process keeps freed memory from then on, so that the next step's passes have few page faults. A program
// with little memory to spare calls return_freed_memory before.
//
// Functions are for the thread that trains. Constructor, step and forward are collectives of the axis. A failure names
// rank, stage and micro-batch.
class Pipeline {
 public:
  // Makes the blocks of this rank's stages, on axis.device(). In a deferred_init they stay deferred, for `shard`.
  // Throws Error for blocks or options that cannot work.
  Pipeline(std::vector<PipelineBlock> blocks, World axis, PipelineOptions options = {});
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();

  // The module with this rank's blocks: to be given to an optimizer, or to be sharded over other ranks before the first
  // step. train() and eval() act on these blocks alone.
  torch::nn::Module& stage();

  // Runs forward and backward of all micro-batches and adds to the gradients. `inputs` has one tensor per micro-batch,
  // and counts on the rank of the first stage; `targets` on that of the last. Other ranks may pass {}. The loss has one
  // element. The backward is that of loss / micro-batches (PipelineOptions::divides_loss). If an input requires
  // gradients, its graph gets them. Returns the mean loss, on every rank. Gradients are on, also in the caller's
  // NoGradGuard. Throws Error in InferenceMode, in a scope of step_in_backward, and with tied parameters in a scope of
  // no_sync. Throws Error if the copies of a tied parameter differ in requires_grad or, in the first step, in their
  // values.
  double step(const Tensors& inputs, const Tensors& targets,
              const std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>& loss);
  // Runs the forwards without gradients. Returns one output per input on the rank of the last stage, {} elsewhere.
  Tensors forward(const Tensors& inputs);

  // Scales the gradients so that their norm over all stages is at most `max_norm`, and returns the norm before. Counts
  // a tied parameter once. Bit for bit the norm of one process (docs/determinism.md). If stages are sharded, it is the
  // same as clip_grad_norm_ of the sharded model, which knows the other stages. A collective. Throws `Error` for a
  // max_norm below 0 or NaN, and for a norm_type that is not positive.
  double clip_grad_norm_(double max_norm, double norm_type = 2.0);

  // Facts of the last step; the same on every rank.
  const PipelineReport& report() const;
  // The idle share of the last step's schedule if each pass takes as long as it took there, and messages take no time.
  // PipelineReport::idle_share is larger by waits for messages, and PipelineReport::idle_share_formula is smaller by
  // passes that did not take equally long. A collective. Throws `Error` before the first step.
  double idle_share_of_passes();
  // Records a timeline of this rank until the result is written or destroyed: actions of the schedule, waits for other
  // stages, idle times, and the sharded models of its stages (docs/tracing.md). The rank in the file and its name is
  // that in the job. Not a collective. Throws `Error` while another trace of this pipeline or of these models lives.
  Trace trace(const TraceOptions& options = {});

 private:
  detail::Movable<"Pipeline", std::unique_ptr<pipeline::Runner>> runner_;
};

}  // namespace fsdp
