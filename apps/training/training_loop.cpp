#include "training/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "generation/generate.h"
#include "planning/activation_text.h"
#include "planning/run_time.h"
#include "run/first_rank.h"
#include "training/evaluate.h"
#include "training/held_run.h"
#include "training/memory_parts.h"
#include "training/pipeline_events.h"
#include "training/rank_offer.h"
#include "training/train_step.h"

namespace trainer {

namespace {

bool is_multiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

TrainingLoop::TrainingLoop(Training& training, MeasuredPeak& peak, const Resumed& resumed, Report* report)
    : training_(training),
      peak_(peak),
      report_(report),
      steps_done_(resumed.steps_done),
      state_(resumed.state),
      stop_request_(/*answers=*/report != nullptr),
      save_timer_(training.options.minutes_between_saves()),
      outstanding_(resumed.outstanding),
      unsaved_(resumed.unsaved),
      clock_(training.world.device()),
      slow_ranks_(training.world.size()),
      trace_(training.options, resumed.steps_done) {}

int TrainingLoop::run() {
  hold(outstanding_ ? &*outstanding_ : nullptr);
  if (outstanding_) finish_step(*std::exchange(outstanding_, std::nullopt));
  while (!is_done()) step();
  if (data_is_over()) event(fmt::format("the data was seen {} times, as --epochs asks", *training_.options.epochs));
  event(trace_.write(training_, steps_done_,
                     peak_.flops()));  // of a run that ended before the last step that was to be traced
  return stop_signal_;
}

void TrainingLoop::step() {
  trace_.begin_step(training_, steps_done_ + 1);
  training_.tensor_memory.begin_step();
  training_.sharded.reset_peak_memory();
  const auto begin = std::chrono::steady_clock::now();
  StepOutcome outcome =
      train_step(training_, steps_done_, {.save_is_due = save_timer_.is_due() || owes_save()}, clock_);
  ++steps_done_;
  trace_.end_step(steps_done_, begin, std::chrono::steady_clock::now(), clock_);
  hold(&outcome);
  finish_step(std::move(outcome));
}

void TrainingLoop::hold(const StepOutcome* outstanding) {
  hold_run(training_, state_, steps_done_, outstanding, unsaved_);
}

void TrainingLoop::finish_step(StepOutcome outcome) {
  if (trace_.ends_after(steps_done_)) event(trace_.write(training_, steps_done_, peak_.flops()));
  agree_on_stop();
  const bool validates = training_.options.validates_after(steps_done_);
  const bool is_best = validates && validate(outcome.record);
  if (report_ != nullptr) outcome.record.memory = memory_parts(training_);  // before a measurement has any
  const std::string new_peak = check_peak(outcome.ranks);
  if (report_ != nullptr) {
    outcome.record.step_seconds += report_seconds_;
    *outcome.record.other_seconds += report_seconds_;
    const auto begin = std::chrono::steady_clock::now();
    report_->step(outcome.record);
    if (report_->folder_was_lost()) training_.job.saved.clear();
    report_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  event(outcome.event);
  event(new_peak);
  finish_save(Wait::Never);
  tell_activation_decision();
  tell_of_pipeline();
  find_slow_rank(outcome.ranks);
  if (is_best) save_best();  // before RUN/step-N, whose notes say that it is there
  const bool saved = save(outcome.ranks.front().save_is_due || ranks_are_offered());
  const bool samples = is_multiple(steps_done_, training_.options.sample_every) && !is_done();
  if (samples) write_sample();
  stop_after_failed_save();
  if (validates || saved || samples) stop_if_asked_meanwhile();
  hold(nullptr);
}

// Once, after the first step for which it holds.
void TrainingLoop::tell_activation_decision() {
  if (told_activations_ || !training_.options.activation_memory) return;
  const auto decision = training_.sharded.activation_decision();
  if (!decision) return;
  told_activations_ = true;
  event(activation_plan_text(decision->plan));
}

// The cuts after the first step of the process, which measures blocks; the idle time after the second.
void TrainingLoop::tell_of_pipeline() {
  const fsdp::PipelineReport* report = training_.model.pipeline_report();
  if (report == nullptr) return;
  ++steps_here_;
  if (steps_here_ == 1) event(better_cuts_text(*report));
  if (steps_here_ != 2) return;
  const double of_passes = training_.model.idle_share_of_passes();
  event(idle_text(*report, of_passes, training_.options.pipeline_schedule));
}

void TrainingLoop::agree_on_stop() { stop_signal_ = agreed_signal(training_.world, stop_request_.signal()); }

// Validations, saves and samples may take long: who asks during one is not made to wait for another step.
void TrainingLoop::stop_if_asked_meanwhile() {
  if (is_done()) return;
  agree_on_stop();
  if (stop_signal_ == 0) return;
  finish_save(Wait::IfNeeded);
  if (saved_step_ == steps_done_) return announce_end();
  save(/*due_by_clock=*/true);
}

void TrainingLoop::announce_end() {
  if (patience_is_over()) {
    event(fmt::format("stops early: the validation loss was lowest, {:.4f}, at step {}, {} validations ago{}",
                      state_.best_validation_loss, state_.best_step, state_.validations_since_best,
                      training_.options.keeps_best() ? "; that checkpoint is " + training_.options.best_folder() : ""));
  }
  if (stop_signal_ != 0) event(fmt::format("stops: {}", strsignal(stop_signal_)));
}

bool TrainingLoop::validate(StepRecord& record) {
  training_.phase.enter("validates", steps_done_);
  record.validation_loss = validation_loss(training_);
  if (!record.validation_loss) return false;
  if (*record.validation_loss < state_.best_validation_loss) {
    state_.best_validation_loss = *record.validation_loss;
    state_.best_step = steps_done_;
    state_.validations_since_best = 0;
    return true;
  }
  ++state_.validations_since_best;
  return false;
}

void TrainingLoop::save_best() {
  if (!training_.options.keeps_best()) return;
  training_.phase.enter("saves the best checkpoint", steps_done_);
  finish_save_before_next();
  save_ = begin_save_best(training_, state_, steps_done_, save_mode());
  if (save_mode() == SaveMode::WhileTrainingWaits) finish_save(Wait::IfNeeded);
}

std::string TrainingLoop::best() const {
  if (!training_.options.keeps_best() || state_.best_step == 0) return "";
  return fmt::format("{}, step {}, validation loss {:.4f}", training_.options.best_folder(), state_.best_step,
                     state_.best_validation_loss);
}

bool TrainingLoop::patience_is_over() const {
  const int64_t patience = training_.options.patience;
  return patience > 0 && state_.validations_since_best >= patience;
}

bool TrainingLoop::data_is_over() const {
  const RunOptions& options = training_.options;
  const bool ends_before_limit = !options.most_steps || options.steps < *options.most_steps;
  return options.epochs && ends_before_limit && steps_done_ >= options.steps;
}

void TrainingLoop::find_slow_rank(const std::vector<StepFacts>& ranks) {
  std::vector<double> busy_seconds;
  if (ranks.size() != static_cast<size_t>(training_.world.size())) return;  // of ranks before these
  // Where some have a micro-batch more than others, these wait for it.
  if (training_.options.micro_batches_of_step() % training_.mesh.data().size() != 0) return;
  for (const StepFacts& rank : ranks) busy_seconds.push_back(rank.seconds - rank.wait_seconds);
  if (const auto slow = slow_ranks_.step(busy_seconds)) {
    event(fmt::format("rank {} is slow: its steps take {:.1f} times as long as the others', which wait for it",
                      slow->rank, slow->times));
  }
}

// By the time of the passes, which each rank has of all: the ranks decide alike.
std::string TrainingLoop::check_peak(const std::vector<StepFacts>& ranks) {
  double seconds = 0;
  for (const StepFacts& rank : ranks) seconds = std::max(seconds, rank.seconds);
  const bool are_these = ranks.size() == static_cast<size_t>(training_.world.size());  // others had another peak
  if (!are_these || seconds <= 0) return "";
  const std::string text = peak_.check(flops_of_step(training_.options) / seconds);
  if (training_.world.rank() == 0) training_.job.peak_flops.set(peak_.flops());
  return text;
}

bool TrainingLoop::save(bool due_by_clock) {
  if (!is_done() && !due_by_clock && !is_multiple(steps_done_, training_.options.save_every)) return false;
  save_timer_.saved();  // or tried to
  announce_end();
  if (training_.options.no_save) return false;
  training_.phase.enter("saves a checkpoint", steps_done_);
  finish_save_before_next();
  unsaved_ = steps_done_;
  save_ = begin_save_run(training_, state_, steps_done_, save_mode());
  if (save_mode() == SaveMode::WhileTrainingWaits) {
    finish_save(Wait::IfNeeded);
    if (saved_step_ == steps_done_) take_ranks_back();
  }
  return true;
}

// Nothing comes after the last one, and ranks that are lacking come after one.
SaveMode TrainingLoop::save_mode() const {
  const bool waits = is_done() || lacks_ranks() || !training_.options.saves_beside_steps();
  return waits ? SaveMode::WhileTrainingWaits : SaveMode::BesideSteps;
}

void TrainingLoop::finish_save(Wait wait) {
  if (!save_ || (wait == Wait::Never && !save_->is_done())) return;
  const BegunSave begun = *std::exchange(save_, std::nullopt);
  if (report_ != nullptr) report_->repair_folder_if_lost();  // before older checkpoints are removed
  const SavedCheckpoint saved = trainer::finish_save(training_, begun);
  if (!begun.best) unsaved_ = 0;  // or there was no room for it
  if (saved.problem.empty()) {
    if (!begun.best) saved_step_ = begun.step;
    if (!begun.best && training_.world.rank() == 0) training_.job.saved.set();
    record(saved);
  } else if (is_done() && !begun.best && begun.step == steps_done_) {
    throw fsdp::Error(saved.problem);
  } else if (training_.options.on_failed_save == "stop") {
    if (!failed_save_.empty()) return;  // the first is told
    failed_save_ = fmt::format("step {}: a checkpoint could not be saved, and --on-failed-save is stop: {}", begun.step,
                               saved.problem);
  } else {
    event(fmt::format("the {}checkpoint could not be saved, training goes on: {}", begun.best ? "best " : "",
                      saved.problem));
  }
}

// Ranks learn of it one step sooner or later than others. A collective, where it is asked for.
void TrainingLoop::stop_after_failed_save() {
  if (is_done() && !failed_save_.empty()) event(failed_save_);  // there is nothing to stop
  if (training_.options.on_failed_save != "stop" || is_done()) return;
  if (agreed_signal(training_.world, failed_save_.empty() ? 0 : 1) == 0) return;
  finish_save(Wait::IfNeeded);
  training_.job.hopeless.set();
  throw AgreedError(training_.world, failed_save_);
}

void TrainingLoop::finish_save_before_next() {
  if (!save_) return;
  const int64_t step = save_->step;
  const auto begin = std::chrono::steady_clock::now();
  const bool waits = !save_->is_done();
  finish_save(Wait::IfNeeded);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!waits || step == steps_done_ || is_done()) return;
  event(fmt::format("training waited {:.2g} s for the checkpoint of step {} before it began the next one", seconds,
                    step));
}

bool TrainingLoop::lacks_ranks() const {
  return training_.job.offers_ranks && training_.world.size() < training_.options.ranks;
}

// A collective, where some are lacking.
bool TrainingLoop::ranks_are_offered() {
  return lacks_ranks() && agreed_signal(training_.world, RankOffer::came() ? SIGUSR2 : 0) != 0;
}

// An elastic job that lost ranks goes on with as many as it may have, where nothing is lost by that.
void TrainingLoop::take_ranks_back() {
  if (!lacks_ranks() || is_done()) return;
  goes_on_with_more_ = true;
  if (training_.world.rank() == 0) training_.job.grows.set();
  event(fmt::format("goes on with {} ranks instead of {}", training_.options.ranks, training_.world.size()));
}

void TrainingLoop::write_sample() {
  if (training_.corpus.tokenizer == nullptr) return;
  training_.phase.enter("writes a sample", steps_done_);
  const SharedSample sample = generate_together(training_.world, writing_model(training_.model),
                                                *training_.corpus.tokenizer, training_.options);
  if (report_ == nullptr) return;
  if (!sample.problem.empty()) return event(fmt::format("no sample could be written: {}", sample.problem));
  try {
    report_->sample(steps_done_, sample.text);
  } catch (const fsdp::Error& error) {
    event(fmt::format("the sample could not be kept, training goes on: {}", error.what()));
  }
}

void TrainingLoop::record(const SavedCheckpoint& saved) {
  if (report_ == nullptr) return;
  // The last lines of the run say where the last ones are.
  const bool is_last = is_done() && saved.record.step == steps_done_;
  report_->checkpoint(saved.record, is_last ? "" : told_of(saved.record, training_.options.run));
}

void TrainingLoop::event(const std::string& text) {
  if (report_ != nullptr && !text.empty()) report_->event(steps_done_, text);
}

}  // namespace trainer
