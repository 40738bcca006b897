#include "training/train_rank.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "metrics/process_memory.h"
#include "options/frozen.h"
#include "planning/peak_flops.h"
#include "run/first_rank.h"
#include "run/run_data.h"
#include "run/sharding.h"
#include "run/shared_folder.h"
#include "training/job.h"
#include "training/process_start.h"
#include "training/profile_plan.h"
#include "training/report.h"
#include "training/run_begin.h"
#include "training/run_end.h"

namespace trainer {

namespace {

// An Error that `function` throws is the fault of something that was given.
template <typename Function>
auto blaming_input(SharedFlag& bad_input, Function function) try {
  return function();
} catch (const fsdp::Error&) {
  bad_input.set();
  throw;
}

// Measured once in a job, as long as its ranks are as many.
MeasuredPeak peak_of(fsdp::World& world, const RunOptions& options, JobMemory& job) {
  const bool is_known = job.attempt > 0 && options.elastic.empty() && job.peak_flops.get() > 0;
  const auto measure = [&world, dtype = compute_dtype_of(options)] { return measured_peak_flops(world, dtype); };
  const double flops = is_known ? job.peak_flops.get() : measure();
  if (world.rank() == 0) job.peak_flops.set(flops);
  return {flops, measure};
}

}  // namespace

int train_rank(RunMesh& mesh, const RunOptions& options, const data::Corpus& corpus, JobMemory& job,
               const std::function<void()>& show_settings) {
  SharedFlag& bad_input = job.bad_input;
  fsdp::World& world = mesh.world();
  const std::optional<ProfilePlan> plan = profile_plan(world, options);
  TensorMemory tensor_memory(world.device());  // before any tensor
  const int64_t program_bytes = process_memory().resident_bytes;
  torch::manual_seed(static_cast<uint64_t>(options.seed));
  const std::unique_ptr<TrainedModel> model = make_trained_model(options, mesh);
  model->freeze(frozen_parameters(options));
  fsdp::Options sharding = sharding_of(options);
  sharding.activation_memory = static_cast<int64_t>(options.activation_memory.value_or(0));
  auto sharded = blaming_input(bad_input, [&] { return mesh.shard(model->module(), sharding); });
  RunOptimizer optimizer(options, sharded);
  fsdp::GradScaler scaler({.enabled = options.scales_loss()});
  // The losses of the micro-batches are as the model gives them; the sum of their gradients is divided, once.
  sharded.set_gradient_divisor(static_cast<double>(options.micro_batches_of_step()));
  const auto epochs = static_cast<int64_t>(std::ceil(options.epochs.value_or(0)));  // 0: as many as needed
  const data::DataOrder order(corpus.ordered(), options.model.context, static_cast<uint64_t>(options.seed), epochs);
  const RunSettings settings =
      settings_from_note(from_first_rank(world, [&] { return to_note(settings_of(options, corpus)); }));
  RunPhase phase;
  Training training{world,     mesh,   options,       corpus, settings, order,         *model, sharded,
                    optimizer, scaler, tensor_memory, job,    phase,    program_bytes, plan,   show_settings};

  std::optional<RunLock> lock;
  const bool is_shared = options.no_save || check_folder_is_shared(world, options.run);
  blaming_input(bad_input, [&] { lock_run(world, options, /*may_make=*/false, lock); });
  const Resumed resumed = blaming_input(bad_input, [&] { return begin_run(training); });
  if (resumed.steps_done >= options.steps && !resumed.outstanding) {
    check_done(world, options, resumed);
    training.show_settings();
    settle_done_run(training);
    return 0;
  }
  blaming_input(bad_input, [&] { lock_run(world, options, /*may_make=*/true, lock); });
  training.show_settings();
  if (!is_shared) check_folder_is_shared(world, options.run);
  MeasuredPeak peak = peak_of(world, options, job);
  std::optional<Report> report;
  if (world.rank() == 0) {
    const ProcessStart start = process_start(world, options, resumed.steps_recorded());
    blaming_input(bad_input, [&] { report.emplace(options, corpus.tokenizer.get(), start, peak, *lock); });
    if (!resumed.told.empty()) report->tell(resumed.told);
    report->data(data_record_of(corpus, resumed.steps_recorded()));
    if (!resumed.passed_over.empty()) report->event(resumed.steps_recorded(), resumed.passed_over);
    if (job.attempt > 0) report->event(resumed.steps_recorded(), attempt_text(options, world.size(), job.attempt));
    report->begin(resumed.steps_recorded());
  }
  blaming_input(bad_input, [&] { leave_later_steps(training, resumed.steps_done); });
  return run_recorded(training, peak, resumed, report ? &*report : nullptr);
}

}  // namespace trainer
