#include "training/run_end.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "console/terminal.h"
#include "generation/generate.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"
#include "training/export_model.h"
#include "training/hang_watch.h"

namespace trainer {

namespace {

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
  if (tokenizer != nullptr)
    sample = generate_together(training.world, writing_model(training.model), *tokenizer, options);
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

}  // namespace

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

}  // namespace trainer
