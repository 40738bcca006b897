// The loop over steps, with all that happens between them.
#pragma once

#include <optional>

#include "metrics/step_record.h"
#include "run/checkpoints.h"
#include "training/measured_peak.h"
#include "training/report.h"
#include "training/run_resume.h"
#include "training/run_saves.h"
#include "training/slow_rank.h"
#include "training/step_clock.h"
#include "training/step_facts.h"
#include "training/stop_request.h"
#include "training/traced_steps.h"
#include "training/training.h"

namespace trainer {

// The loop of one rank; only rank 0 has a report. All ranks decide alike, from what they told each other in a step.
class TrainingLoop {
 public:
  TrainingLoop(Training& training, MeasuredPeak& peak, const Resumed& resumed, Report* report);

  // Trains until the steps are done, patience has run out or a signal asks to stop, and saves. Returns the signal, 0
  // for none. Throws fsdp::Error when a step fails, or the last checkpoint cannot be saved. A collective.
  int run();
  int64_t steps_done() const { return steps_done_; }
  // The run ended so that the job can go on with ranks that it had lost; it has saved.
  bool goes_on_with_more() const { return goes_on_with_more_; }
  // The best validation so far, and the checkpoint that is kept of it, for people; empty: there is none.
  std::string best() const;

 private:
  bool is_done() const {
    return stop_signal_ != 0 || patience_is_over() || steps_done_ >= training_.options.steps || goes_on_with_more_;
  }
  // True for an elastic job whose launcher could start more ranks.
  bool lacks_ranks() const;
  bool ranks_are_offered();
  // Called where the run was saved.
  void take_ranks_back();
  void step();
  // The rest of a step once the parameters have changed: its record, and a validation, a checkpoint and a sample where
  // these are due.
  void finish_step(StepOutcome outcome);
  // From now on a rank that dies loses nothing. `outstanding`: of the last step; null: nothing is.
  void hold(const StepOutcome* outstanding);
  // True if the loss is the lowest so far.
  bool validate(StepRecord& record);
  void save_best();
  bool patience_is_over() const;
  bool data_is_over() const;
  void find_slow_rank(const std::vector<StepFacts>& ranks);
  // A note for the user if the peak was measured again. A collective.
  std::string check_peak(const std::vector<StepFacts>& ranks);
  // Ranks before these began a checkpoint that is not there, and no other one is under way.
  bool owes_save() const { return unsaved_ > 0 && !(save_ && !save_->best); }
  bool save(bool due_by_clock);  // whether it was time to
  SaveMode save_mode() const;
  // Ends the save that is under way, waiting for it where that is asked for.
  enum class Wait { Never, IfNeeded };
  void finish_save(Wait wait);
  // Before another one.
  void finish_save_before_next();
  void stop_after_failed_save();
  void tell_activation_decision();
  void tell_of_pipeline();
  void agree_on_stop();
  void stop_if_asked_meanwhile();
  void announce_end();
  void write_sample();
  void record(const SavedCheckpoint& saved);
  void event(const std::string& text);

  Training& training_;
  MeasuredPeak& peak_;
  Report* report_;  // null on all ranks but the first
  int64_t steps_done_;
  ResumeState state_;
  StopRequest stop_request_;  // which rank 0 answers
  SaveTimer save_timer_;
  std::optional<StepOutcome> outstanding_;  // of the step that ranks before these did
  int64_t unsaved_;                         // the step of a checkpoint that is begun and not there; 0: none is
  StepClock clock_;
  SlowRankFinder slow_ranks_;
  double report_seconds_ = 0;  // that reporting on the step before took
  TracedSteps trace_;
  std::optional<BegunSave> save_;  // under way
  int64_t saved_step_ = -1;
  std::string failed_save_ = {};  // what went wrong, where the run is to end by it
  int stop_signal_ = 0;
  bool told_activations_ = false;
  int64_t steps_here_ = 0;  // of this process
  bool goes_on_with_more_ = false;
};

}  // namespace trainer
