#include "training/train.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "console/terminal.h"
#include "data/text_files.h"
#include "generation/generate.h"
#include "metrics/process_memory.h"
#include "models/hugging_face_weights.h"
#include "options/frozen.h"
#include "options/resolve.h"
#include "options/sample_choice.h"
#include "options/settings.h"
#include "planning/peak_flops.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"
#include "run/fresh_folder.h"
#include "run/problems.h"
#include "run/refuse_together.h"
#include "run/run_data.h"
#include "run/run_files.h"
#include "run/run_lock.h"
#include "run/sharding.h"
#include "run/shared_folder.h"
#include "run/slow_choices.h"
#include "run/threads_before.h"
#include "training/export_model.h"
#include "training/hang_watch.h"
#include "training/job.h"
#include "training/lenient_load.h"
#include "training/memory_guard.h"
#include "training/process_start.h"
#include "training/report.h"
#include "training/training_loop.h"

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

// Those of --init-from. Returns in what they differ from the model.
std::string load_first_weights(Training& training) {
  const RunOptions& options = training.options;
  return text_of(load_leniently(options, [&](bool strict, fsdp::LoadDifferences& differences) {
    const std::string& weights = options.model_options.init_from;
    if (sample_form(weights) == SampleForm::Checkpoint) {
      fsdp::load_checkpoint(weights, {.model = &training.sharded}, {.strict = strict, .differences = &differences});
      return;
    }
    fsdp::PretrainedOptions pretrained = models::pretrained_options(options.model);
    pretrained.strict = strict;
    pretrained.differences = &differences;
    fsdp::load_pretrained(weights, training.sharded, pretrained);
  }));
}

// The beginning of the loop: a checkpoint, weights that were trained elsewhere, or the first weights.
Resumed begin(Training& training) {
  Resumed resumed = resume_run(training);
  const RunOptions& options = training.options;
  if (resumed.steps_done == 0 && !options.model_options.init_from.empty()) {
    training.show_settings();
    const std::string differs = load_first_weights(training);
    resumed.told = fmt::format("begins with the weights of {}{}{}", options.model_options.init_from,
                               differs.empty() ? "" : ": ", differs);
  }
  training.sharded.initialise();  // the first weights, where nothing was loaded
  if (resumed.steps_done < options.steps || options.checkpoint.empty()) return resumed;
  throw fsdp::Error(
      fmt::format("checkpoint '{}' has done {} steps and --steps is {}: nothing is left to train. Use more --steps.",
                  options.checkpoint, resumed.steps_done, options.steps));
}

// Rank 0 takes the lock, if it has not, and tidies the folder; with `may_make` also that of a folder that is not there
// yet. A collective.
void lock_run(fsdp::World& world, const RunOptions& options, bool may_make, std::optional<RunLock>& lock) {
  from_first_rank(world, [&] {
    std::error_code ignored;
    if (lock || (!may_make && !std::filesystem::exists(options.run, ignored))) return std::string();
    lock.emplace(options.run);
    tidy_after_crash(options.run);
    remove_unfinished_files(options.run);
    return std::string();
  });
}

// A run that goes back to an earlier checkpoint, or begins anew, sets its later checkpoints aside: a later start, after
// a kill too, then goes on from here. Once in a job, whose own checkpoints come later. A collective.
void leave_later_steps(Training& training, int64_t steps_done) {
  const RunOptions& options = training.options;
  const bool chose_beginning = options.resume != "auto" || !options.checkpoint.empty();
  if (options.no_save || !chose_beginning) return;
  from_first_rank(training.world, [&] {
    if (!training.job.left_later_steps.is_set()) set_later_checkpoints_aside(options.run, steps_done);
    training.job.left_later_steps.set();
    return std::string();
  });
}

// A run that is done, and started again as it was, has nothing to do; with other options it was meant to be another.
void check_done(fsdp::World& world, const RunOptions& options, const Resumed& resumed) {
  if (in_one_line(resumed.differs).empty()) return;
  throw AgreedError(
      world,
      fmt::format("the run in '{}' has done all its {} steps, and these options differ from its own. To train it "
                  "further, give more --steps. To train anew, name another --run, or none for a fresh one.{}",
                  options.run, resumed.steps_done, in_rows(resumed.differs)));
}

std::string done_text(const RunOptions& options) {
  return fmt::format("all {} steps are done{}: train the run in '{}' further with more --steps.\n", options.steps,
                     options.export_model ? fmt::format(", and {} is written", model_folder(options).string()) : "",
                     options.run);
}

// Loses the weights of the last step where the best are asked for: it is the last thing that a run does.
void export_run(Training& training) {
  if (!training.options.export_model) return;
  if (training.options.export_best) load_best(training);
  export_model(training);
}

// Ends a run whose process was stopped after the last step: its export, and the removal of old checkpoints. A
// collective.
void settle_done_run(Training& training) {
  const RunOptions& options = training.options;
  export_run(training);
  from_first_rank(training.world, [&] {
    const RemovedCheckpoints removed = remove_old_checkpoints(options.run, options.keep);
    for (const std::string& problem : removed.problems) print_error(problem + "\n");
    print(done_text(options));
    return std::string();
  });
}

// To the end, or to the signal that it returns.
int run_to_end(Training& training, TrainingLoop& loop, Report* report) {
  const RunOptions& options = training.options;
  const tokenizers::Tokenizer* tokenizer = training.corpus.tokenizer.get();
  const int signal = loop.run();
  if (loop.goes_on_with_more()) return 0;
  if (signal != 0) {
    if (report != nullptr) report->stopped(loop.steps_done());
    return signal;
  }
  training.phase.enter("writes what it was asked for at the end", loop.steps_done());
  SharedSample sample;
  if (tokenizer != nullptr) sample = generate_together(training.world, training.model, *tokenizer, options);
  export_run(training);
  if (report == nullptr) return 0;
  if (!sample.problem.empty())
    report->event(loop.steps_done(), fmt::format("no sample could be written: {}", sample.problem));
  report->finish(loop.steps_done(), sample.text, loop.best());
  return 0;
}

HangWatch::Watched watched(const Training& training) {
  const int rank = training.world.rank();
  return {.who = fmt::format("rank {}", rank),
          .file = fmt::format("{}/hang-{}.txt", training.options.run, rank),
          .waits_for = [&sharded = training.sharded] { return sharded.waits_for(); }};
}

// The error is what counts, wherever the record is by now.
void record_failure(Report& report, int64_t steps_done, const std::exception& error) try {
  report.end(steps_done, EndStatus::Failed, error.what());
} catch (const FolderTaken&) {
}

// The last record says how it ended.
int run_recorded(Training& training, MeasuredPeak& peak, const Resumed& resumed, Report* report) {
  TrainingLoop loop(training, peak, resumed, report);
  training.job.trains.set();
  const HangWatch watch(std::chrono::seconds(training.options.hang_timeout), watched(training), training.phase,
                        training.job.hangs);
  try {
    const int signal = run_to_end(training, loop, report);
    if (report != nullptr) {
      const std::string reason = signal != 0                ? strsignal(signal)
                                 : loop.goes_on_with_more() ? "it goes on with more ranks"
                                                            : "";
      report->end(loop.steps_done(), reason.empty() ? EndStatus::Finished : EndStatus::Stopped, reason);
    }
    return signal;
  } catch (const FolderTaken&) {
    training.job.hopeless.set();
    throw;
  } catch (const std::exception& error) {
    if (report != nullptr) record_failure(*report, loop.steps_done(), error);
    throw;
  }
}

// Measured once in a job, as long as its ranks are as many.
MeasuredPeak peak_of(fsdp::World& world, const RunOptions& options, JobMemory& job) {
  const bool is_known = job.attempt > 0 && options.elastic.empty() && job.peak_flops.get() > 0;
  const auto measure = [&world, dtype = compute_dtype_of(options)] { return measured_peak_flops(world, dtype); };
  const double flops = is_known ? job.peak_flops.get() : measure();
  if (world.rank() == 0) job.peak_flops.set(flops);
  return {flops, measure};
}

// Before the model is sharded: then no gradient is kept for these, and no optimizer state.
void freeze(models::LanguageModel& model, const std::set<std::string>& names) {
  for (auto& parameter : model.named_parameters()) {
    if (names.contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
}

// Every rank runs this; rank 0 alone has a report. Returns the signal that ended the run, 0 for none.
int train_rank(fsdp::World& world, const RunOptions& options, const data::Corpus& corpus, JobMemory& job,
               const std::function<void()>& show_settings) {
  SharedFlag& bad_input = job.bad_input;
  TensorMemory tensor_memory(world.device());  // before any tensor
  const int64_t program_bytes = process_memory().resident_bytes;
  torch::manual_seed(static_cast<uint64_t>(options.seed));
  const auto model = models::make_deferred_model(options.model, world.device());
  model->set_recomputation(options.recomputation());
  freeze(*model, frozen_parameters(options));
  fsdp::Options sharding = sharding_of(options);
  sharding.activation_memory = static_cast<int64_t>(options.activation_memory.value_or(0));
  auto sharded = blaming_input(bad_input, [&] { return fsdp::shard(*model, world, sharding); });
  RunOptimizer optimizer(options, sharded);
  fsdp::GradScaler scaler({.enabled = options.scales_loss()});
  // The losses of the micro-batches are as the model gives them; the sum of their gradients is divided, once.
  sharded.set_gradient_divisor(static_cast<double>(options.micro_batches_of_step()));
  const auto epochs = static_cast<int64_t>(std::ceil(options.epochs.value_or(0)));  // 0: as many as needed
  const data::DataOrder order(corpus.ordered(), options.model.context, static_cast<uint64_t>(options.seed), epochs);
  const RunSettings settings =
      settings_from_note(from_first_rank(world, [&] { return to_note(settings_of(options, corpus)); }));
  RunPhase phase;
  Training training{world,     options, corpus,        settings, order, *model,        sharded,
                    optimizer, scaler,  tensor_memory, job,      phase, program_bytes, show_settings};

  std::optional<RunLock> lock;
  const bool is_shared = options.no_save || check_folder_is_shared(world, options.run);
  blaming_input(bad_input, [&] { lock_run(world, options, /*may_make=*/false, lock); });
  const Resumed resumed = blaming_input(bad_input, [&] { return begin(training); });
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

// Their number decides bits (docs/determinism.md): a job that goes on after a failure, on fewer ranks too, keeps it.
int64_t threads_for_job(const RunOptions& options, fsdp::World& world, JobMemory& job) {
  if (options.threads != 0) return options.threads;
  if (job.attempt > 0 && job.threads.get() != 0) return job.threads.get();
  return std::stoll(from_first_rank(world, [&] { return std::to_string(threads_before(options)); }));
}

// Decided by the job, not by the command line: under torchrun and its like the number of ranks is theirs. Returns what
// cannot be.
std::vector<std::string> resolve_for_job(RunOptions& options, fsdp::World& world, const data::Corpus& corpus,
                                         JobMemory& job) {
  const int64_t windows = corpus.windows(options.model.context);
  if (options.elastic.empty()) options.ranks = world.size();
  options.threads = threads_for_job(options, world, job);
  if (options.threads > 0) torch::set_num_threads(static_cast<int>(options.threads));
  options.threads = torch::get_num_threads();
  if (world.rank() == 0) job.threads.set(options.threads);
  return resolve(options, {.ranks = world.size(), .windows = windows, .is_known = true});
}

// As it is divided among the ranks that there are.
RunOptions as_run_by(int ranks, const RunOptions& options) {
  RunOptions divided = options;
  divided.ranks = ranks;
  divided.micro_batches = (options.micro_batches_of_step() + ranks - 1) / ranks;
  return divided;
}

void choose_run_folder(fsdp::World& world, RunOptions& options, JobMemory& job, EmptyFolderGuard& guard) {
  if (options.run.empty()) {
    options.run = from_first_rank(world, make_run_folder);
    if (world.rank() == 0) guard.watch(options.run);
  }
  if (world.rank() == 0) job.run.set(options.run);
}

// Warnings for ranks on CPUs.
std::string warnings(const fsdp::World& world, const RunOptions& options) {
  std::string text;
  if (!world.device().is_cpu()) return text;
  for (const std::string& choice : slow_choices(options, world.local_size(), is_started_as_rank(), read_processor())) {
    text += fmt::format("warning: {}\n", choice);
  }
  return text;
}

void run_rank(fsdp::World& world, const RunOptions& given, const data::Corpus& corpus,
              const std::vector<std::string>& problems, const FreeMemory& free, JobMemory& job) {
  RunOptions options = given;
  if (refuse_together(world, problems) || refuse_together(world, resolve_for_job(options, world, corpus, job))) {
    return job.refused.set();
  }
  EmptyFolderGuard guard;
  try {
    check_activation_memory(world, options);
    check_memory(world, as_run_by(world.size(), options), free);
    choose_run_folder(world, options, job, guard);
    bool is_shown = world.rank() != 0 || job.attempt > 0;
    const auto show_settings = [&] {
      if (std::exchange(is_shown, true)) return;
      print(settings_table(options, corpus) + "\n" + data::passed_over_text(corpus.passed_over) +
            warnings(world, options));
    };
    if (const int number = train_rank(world, options, corpus, job, show_settings); number != 0) job.signal.set(number);
  } catch (const AgreedError& error) {
    // A hopeless failure came during training: the options and files that were given are not to blame.
    const bool is_hopeless = job.hopeless.is_set();
    if (world.rank() == 0) {
      is_hopeless ? print_error(fmt::format("{}\n", error.what())) : print_problems({error.what()});
    }
    if (!is_hopeless) job.refused.set();
  }
}

}  // namespace

int train(const RunOptions& given, const data::Corpus& corpus, const std::vector<std::string>& problems) {
  JobMemory job;
  const FreeMemory free_here = free_memory();
  return run_job(given, job, [&](const RunOptions& options, fsdp::World& world) {
    run_rank(world, options, corpus, problems, free_here, job);
  });
}

}  // namespace trainer
