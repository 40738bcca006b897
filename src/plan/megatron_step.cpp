#include "plan/megatron_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/collective_time.h"
#include "plan/megatron_work.h"
#include "stages/schedules.h"
#include "stages/timing.h"

namespace fsdp::plan {

namespace {

struct MegatronStage {
  WorkTime forward, backward;
  double parameters = 0;
};

void check(const MegatronRun& run) {
  const int64_t counts[] = {run.batch, run.sequence, run.micro_batches, run.data, run.pipeline, run.tensor};
  if (std::ranges::any_of(counts, [](int64_t count) { return count < 1; }) || run.shape.layers % run.pipeline != 0 ||
      run.shape.heads % run.tensor != 0)
    throw Error(
        fmt::format("Megatron: {} layers in {} stages, and {} heads over {} tensor ranks; the stages divide the "
                    "layers, the ranks divide the heads, and all counts are at least 1",
                    run.shape.layers, run.pipeline, run.shape.heads, run.tensor));
}

// Elements of the embedding, on one tensor rank.
double vocabulary_numel(const MegatronRun& run) {
  return static_cast<double>(divided_vocabulary(run.shape.vocabulary, run.tensor) * run.shape.width);
}

std::vector<MegatronStage> stages_of(const MegatronRun& run, const MegatronEngine& engine, const Hardware& hardware) {
  const MegatronWork work =
      megatron_work(run.shape, {.batch = run.batch, .sequence = run.sequence, .tensor = run.tensor}, engine, hardware);
  const auto width = static_cast<double>(run.shape.width);
  const int64_t layers = run.shape.layers / run.pipeline;
  std::vector<MegatronStage> stages(static_cast<size_t>(run.pipeline));
  for (MegatronStage& stage : stages) {
    const bool is_first = &stage == &stages.front(), is_last = &stage == &stages.back();
    stage.parameters =
        static_cast<double>(layers) * (12 * width * width + 13 * width) / static_cast<double>(run.tensor);
    if (is_first) {
      stage.forward = work.embedding_forward;
      stage.parameters += vocabulary_numel(run) + static_cast<double>(run.sequence) * width;
    }
    if (is_last) stage.backward = work.head_backward;
    if (is_last && !is_first) stage.parameters += vocabulary_numel(run);
    for (int64_t i = 0; i < layers; ++i) {
      stage.forward = stage.forward.then(work.layer_forward);
      stage.backward = stage.backward.then(work.layer_backward);
    }
    if (is_last) stage.forward = stage.forward.then(work.head_forward);
    if (is_first) stage.backward = stage.backward.then(work.embedding_backward);
  }
  return stages;
}

// Without stages before and behind, the host runs ahead of the device from one micro-batch to the next.
double end_of_one_stage(const MegatronStage& stage, int64_t micro_batches, const MegatronEngine& engine) {
  const WorkTime before{.host = engine.host_of_micro_batch, .device = 0, .joint = engine.host_of_micro_batch};
  const WorkTime of_batch = before.then(stage.forward).then(stage.backward);
  double host = 0, device = 0;
  for (int64_t i = 0; i < micro_batches; ++i) {
    device = std::max(device + of_batch.device, host + of_batch.joint);
    host += of_batch.host;
  }
  return std::max(host, device);
}

// When each stage ends its last backward. Host and device meet at each message.
std::vector<double> ends_of_stages(const MegatronRun& run, const std::vector<MegatronStage>& stages,
                                   const MegatronEngine& engine, const Hardware& hardware) {
  if (stages.size() == 1) return {end_of_one_stage(stages.front(), run.micro_batches, engine)};
  std::vector<stages::StageTimes> times;
  for (const MegatronStage& stage : stages) {
    times.push_back({.forward = stage.forward.alone() + engine.transfer + engine.host_of_micro_batch,
                     .input_gradient = stage.backward.alone() + engine.transfer});
  }
  const double bytes = 2 * static_cast<double>(run.batch * run.sequence * run.shape.width);
  const stages::StageTiming timing = stages::timing_of(
      stages::one_forward_one_backward(static_cast<int>(run.pipeline), 1, static_cast<int>(run.micro_batches)), times,
      engine.transfer + bytes / hardware.local_bandwidth);
  std::vector<double> ends;
  for (const auto& intervals : timing.intervals) {
    double end = 0;
    for (const auto& interval : intervals) end = std::max(end, interval.end);
    ends.push_back(end);
  }
  return ends;
}

}  // namespace

StepSeconds megatron_step(const MegatronRun& run, const MegatronEngine& engine, const Hardware& hardware) {
  check(run);
  const std::vector<MegatronStage> stages = stages_of(run, engine, hardware);
  const std::vector<double> ends = ends_of_stages(run, stages, engine, hardware);
  const double bandwidth = hardware.memory_bandwidth * hardware.memory_efficiency;
  StepSeconds step;
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool has_embedding = i == 0 || i + 1 == stages.size();
    double communication = collective_seconds(Collective::AllReduce, 2 * stages[i].parameters, {run.data, 1}, hardware);
    double end = ends[i] + communication;
    if (stages.size() > 1 && has_embedding) {
      const double tied = collective_seconds(Collective::AllReduce, 2 * vocabulary_numel(run), {2, 1}, hardware);
      end = std::max({ends.front(), ends.back(), end}) + tied;
      communication += tied;
    }
    const double update = engine.update_bytes * stages[i].parameters / bandwidth;
    end += update + engine.host_of_step;
    const double compute =
        static_cast<double>(run.micro_batches) * (stages[i].forward.device + stages[i].backward.device) + update;
    if (end <= step.step) continue;
    step = {.step = end,
            .compute = compute,
            .exposed_communication = communication,
            .idle = std::max(0.0, end - compute - communication)};
  }
  return step;
}

}  // namespace fsdp::plan
