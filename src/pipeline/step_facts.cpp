#include "pipeline/step_facts.h"

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "world/state.h"

namespace fsdp::pipeline {

namespace {

torch::Tensor on_cpu(const std::vector<double>& values) { return torch::tensor(values, torch::kFloat64); }

}  // namespace

uint64_t fingerprint(const std::vector<PipelineBlock>& blocks, const PipelineOptions& options,
                     const StageLayout& layout) {
  std::string text = fmt::format("{} {} {} [{}] {}", name_of(options.schedule), options.stages_per_rank,
                                 static_cast<int>(options.gathers), fmt::join(layout.cuts, ","), options.divides_loss);
  for (const PipelineBlock& block : blocks) {
    text += "\n" + block.name;
    for (const auto& [own, other] : block.shares) text += fmt::format(" {}={}", own, other);
  }
  return std::hash<std::string>()(text);
}

int name_of_rank(const World& axis, int rank) { return axis.state()->world_ranks()[rank]; }

Agreement agree_on_call(World& axis, const StageLayout& layout, const CallFacts& own) {
  constexpr int64_t kSharded = 1, kNoParameters = 2;
  const int64_t sharded = own.sharded ? kSharded : own.has_parameters ? 0 : kNoParameters;
  const std::vector<int64_t> facts{
      static_cast<int64_t>(own.inputs), own.targets ? static_cast<int64_t>(*own.targets) : -1,
      static_cast<int64_t>(own.fingerprint), sharded, static_cast<int64_t>(own.random_number)};
  const Tensors all = axis.all_gather(torch::tensor(facts, torch::kInt64));
  const auto name_of_rank = [&](int rank) { return pipeline::name_of_rank(axis, rank); };
  const auto fact = [&](int rank, int index) { return all[rank].const_data_ptr<int64_t>()[index]; };
  bool any_sharded = false;
  for (int rank = 0; rank < axis.size(); ++rank) any_sharded |= fact(rank, 3) == kSharded;
  for (int rank = 0; rank < axis.size(); ++rank) {
    FSDP_CHECK(
        fact(rank, 3) != kNoParameters || !any_sharded,
        "Pipeline: the stages of rank {} have no parameters, and those of other ranks are sharded. Give each rank "
        "a block with parameters (PipelineOptions::cuts).",
        name_of_rank(rank));
  }
  for (int rank = 1; rank < axis.size(); ++rank) {
    FSDP_CHECK(
        fact(rank, 2) == fact(0, 2),
        "Pipeline: rank {} and rank {} have other blocks, cuts or schedules. Construct the pipeline with the same "
        "arguments on all ranks.",
        name_of_rank(0), name_of_rank(rank));
    FSDP_CHECK(
        (fact(rank, 3) == kSharded) == (fact(0, 3) == kSharded),
        "Pipeline: the stages of rank {} are sharded, and those of rank {} are not. Shard the stages of all ranks, "
        "or of none.",
        name_of_rank(fact(0, 3) == kSharded ? 0 : rank), name_of_rank(fact(0, 3) == kSharded ? rank : 0));
    FSDP_CHECK((fact(rank, 1) < 0) == (fact(0, 1) < 0),
               "Pipeline: rank {} calls step, and rank {} calls forward. Make the same call on all ranks.",
               name_of_rank(fact(0, 1) < 0 ? rank : 0), name_of_rank(fact(0, 1) < 0 ? 0 : rank));
  }
  const int last = layout.rank_of(layout.stages() - 1);
  const int64_t micro_batches = fact(0, 0), of_targets = fact(last, 1);
  FSDP_CHECK(micro_batches > 0,
             "Pipeline: found no inputs on rank {}, which has the first stage. Pass one tensor for "
             "each micro-batch.",
             name_of_rank(0));
  FSDP_CHECK(
      of_targets < 0 || of_targets == micro_batches,
      "Pipeline: found {} inputs on rank {} and {} targets on rank {}. Pass as many targets to the last stage as "
      "inputs to the first.",
      micro_batches, name_of_rank(0), of_targets, name_of_rank(last));
  return {.micro_batches = static_cast<int>(micro_batches), .random_number = static_cast<uint64_t>(fact(0, 4))};
}

std::vector<StepPart> exchange_parts(World& axis, const StepPart& own) {
  std::vector<StepPart> parts;
  const auto& [loss, passes, seconds] = own;
  const std::vector<double> packed{loss, passes.forward, passes.input_gradient, passes.weight_gradient, seconds};
  for (const torch::Tensor& part : axis.all_gather(on_cpu(packed))) {
    const auto* values = part.const_data_ptr<double>();
    parts.push_back({values[0], {values[1], values[2], values[3]}, values[4]});
  }
  return parts;
}

std::vector<double> sum_over_ranks(World& axis, const std::vector<double>& values) {
  torch::Tensor sum = on_cpu(values);
  axis.all_reduce_(sum);
  return {sum.const_data_ptr<double>(), sum.const_data_ptr<double>() + sum.numel()};
}

}  // namespace fsdp::pipeline
