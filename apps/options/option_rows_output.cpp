// The options of what is shown and kept.
#include "options/option_groups.h"

namespace trainer {

namespace {

using O = AllOptions;

Group shown_and_kept() {
  return {
      "Output and checkpoints",
      "output",
      {{"--run", &O::run, Anything{}, kTrain, "FOLDER", "a fresh one here: run-1, run-2, ...",
        "Folder of the run, for configuration, metrics, checkpoints and samples. An existing run resumes (see "
        "--resume)."},
       {"--log-every", &O::log_every, from(0, kMany), kTrain, "STEPS", "5 seconds",
        "Steps between lines if the output is no terminal."},
       {"--validate-every", &O::validate_every, from(0, kMany), kTrain, "STEPS",
        "at the end, and after four fifths of 100 steps or more", "Steps between validation losses."},
       {"--validation-windows", &O::validation_windows, from(1, kMany), kTrain, "SEQUENCES", "",
        "Number of sequences of a validation loss, spread over the validation data."},
       {"--save-every", &O::save_every, from(0, kMany), kTrain, "STEPS", "at the end", "Steps between checkpoints."},
       {"--save-minutes", &O::save_minutes, kNotNegative, kTrain, "MINUTES",
        "never, or 10 with --max-restarts, --elastic or --hot-restart and without --save-every",
        "Minutes between checkpoints. 0: never."},
       {"--keep", &O::keep, from(0, kMany), kTrain, "CHECKPOINTS", "all",
        "Number of checkpoints to keep, the newest of this run. 0 keeps all."},
       {"--no-best", &O::no_best, Anything{}, kTrain, "", "",
        "Does not keep RUN/best, the checkpoint with the lowest validation loss. It is kept if --validate-every makes "
        "several validations."},
       {"--no-save", &O::no_save, Anything{}, kTrain, "", "",
        "Saves no checkpoint, not even at the end: to try a model's memory and speed. Such a run cannot be resumed."},
       {"--save-sync", &O::save_sync, Anything{}, kTrain, "", "",
        "Stops training while a checkpoint is written. Otherwise a copy of the state is written during the next steps. "
        "It needs 12 bytes per parameter, divided among the ranks as the state is."},
       {"--on-failed-save", &O::on_failed_save, words(kOnFailedSave), kTrain, "ACTION", "",
        "If a checkpoint cannot be written, for example on a full disk, training continues, or the run stops. It tries "
        "again at the next save. The older checkpoints stay whole. If the last checkpoint cannot be written, the run "
        "always ends with an error."},
       {"--checkpoint", &O::checkpoint, Anything{}, kTrainAndSample, "FOLDER", "none",
        "Starts from this checkpoint: training continues with the other options given, in another --run. A sample uses "
        "its model. In sample this may also be a run, for its newest checkpoint, or the folder of a model from "
        "--export or Hugging Face."},
       {"--no-strict", &O::no_strict, Anything{}, kTrain, "", "",
        "Loads the matching part of --checkpoint or --init-from, and lists the differences. Parameters missing in the "
        "file begin anew (adapters, a head); extra ones are skipped. If the vocabulary is larger than in the file, its "
        "first rows are loaded. States of another optimizer begin anew, and moments of another dtype are converted."},
       {"--resume", &O::resume, Anything{}, kTrain, "RUN", "",
        "Resumes the run in this folder, or from one of its checkpoints, RUN/step-N. Its options are those in "
        "RUN/config.toml and those given here. With auto it resumes the run in --run, if there is one; with never it "
        "does not. Data, model, tokens per step, seed and optimizer stay the run's."},
       {"--export", &O::export_model, Anything{}, kTrain, "", "",
        "Writes RUN/model at the end, a folder that Hugging Face's transformers reads."},
       {"--export-best", &O::export_best, Anything{}, kTrain, "", "",
        "Writes the weights of RUN/best instead of those of the last step, with --export."},
       {"--trace-steps", &O::trace_steps, Anything{}, kTrain, "", "none", "Traces these steps, for Perfetto."},
       {"--profile", &O::profile, Anything{}, kTrain, "FOLDER", "none",
        "Writes trace.json, one trace of all ranks for Perfetto, and profile.html: memory over time, the time of each "
        "rank and unit, and both beside the plan. The steps are those of --trace-steps, otherwise five, from the third "
        "one of this process on."},
       {"--output", &O::output, Anything{}, kPrepare | kReport, "PATH", "prepare: none; report: RUN/report.html",
        "Folder for the tokens, or file for the HTML page."},
       {"--watch", &O::watch, Anything{}, kReport, "", "",
        "Writes the page again every few seconds while a run continues."},
       {"RUN", &O::runs, Anything{}, kReport, "FOLDER", "none", "Folder of a run. Several are compared."}}};
}

Group samples() {
  return {
      "Samples",
      "samples",
      {{"--sample-every", &O::sample_every, from(0, kMany), kTrain, "STEPS", "at the end", "Steps between samples."},
       {"--sample-length", &O::sample_length, from(0, kMany), kTrainAndSample, "TOKENS", "",
        "Number of tokens that the model writes."},
       {"--samples", &O::samples, from(1, kMany), kSample, "N", "",
        "Writes this many samples, each with the next seed."},
       {"--temperature", &O::temperature, kNotNegative, kTrainAndSample, "X", "",
        "Temperature at which tokens are drawn. 0 always takes the likeliest."},
       {"--top-k", &O::top_k, from(0, kMany), kTrainAndSample, "TOKENS", "",
        "Draws each token from this many likeliest ones. 0 draws from all."},
       {"--prompt", &O::prompt, Anything{.may_be_empty = true}, kTrainAndSample, "TEXT", "a new line",
        "Text at the beginning of a sample. sample reads it from standard input if it is -, or if it is not given and "
        "standard input is a pipe or a file."}}};
}

Group completion() {
  return {
      "Completion", "", {{"SHELL", &O::shell, words(kShells), kCompletion, "", "", "Shell that the script is for."}}};
}

}  // namespace

std::vector<Group> output_groups() { return {shown_and_kept(), samples(), completion()}; }

}  // namespace trainer
