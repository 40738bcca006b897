// The options of what is shown and kept.
#include "options/option_groups.h"

namespace trainer {

namespace {

using O = Options;

Group shown_and_kept() {
  return {
      "What is shown and kept",
      "output",
      {{"--run", &O::run, Anything{}, kTrain, "FOLDER", "a fresh one here: run-1, run-2, ...",
        "Folder of the run, for configuration, metrics, checkpoints and samples. A run that lies there goes on (see "
        "--resume)."},
       {"--log-every", &O::log_every, from(0, kMany), kTrain, "STEPS", "5 seconds",
        "Steps between lines where there is no terminal."},
       {"--validate-every", &O::validate_every, from(0, kMany), kTrain, "STEPS",
        "at the end, and after four fifths of 100 steps or more", "Steps between validation losses."},
       {"--validation-windows", &O::validation_windows, from(1, kMany), kTrain, "SEQUENCES", "",
        "Sequences that a validation loss is the mean of, spread over the validation data."},
       {"--save-every", &O::save_every, from(0, kMany), kTrain, "STEPS", "at the end", "Steps between checkpoints."},
       {"--save-minutes", &O::save_minutes, kNotNegative, kTrain, "MINUTES",
        "never, or 10 where --max-restarts, --elastic or --hot-restart is given without --save-every",
        "Minutes between checkpoints. 0: never."},
       {"--keep", &O::keep, from(0, kMany), kTrain, "CHECKPOINTS", "all",
        "Number of checkpoints that are kept, the newest of this run. 0 keeps all."},
       {"--no-best", &O::no_best, Anything{}, kTrain, "", "",
        "Does not keep RUN/best, the checkpoint with the lowest validation loss. It is kept where --validate-every "
        "asks for several."},
       {"--no-save", &O::no_save, Anything{}, kTrain, "", "",
        "Saves no checkpoint, not even at the end: a trial of what a model takes. Such a run cannot go on."},
       {"--save-sync", &O::save_sync, Anything{}, kTrain, "", "",
        "Stops training while a checkpoint is written. Otherwise a copy of the state is made and written beside the "
        "steps, which takes memory for the copy: 12 bytes per parameter, divided among the ranks as the state is."},
       {"--on-failed-save", &O::on_failed_save, words(kOnFailedSave), kTrain, "ACTION", "",
        "Trains on when a checkpoint cannot be written, or stops the run: a full disk, for example. Training that goes "
        "on tries again when the next one is due. The older checkpoints stay whole. A run whose last checkpoint cannot "
        "be written always ends with an error."},
       {"--checkpoint", &O::checkpoint, Anything{}, kTrainAndSample, "FOLDER", "none",
        "Begins from this checkpoint: training goes on with whatever else is given, in another --run; a sample is "
        "written by its model. sample takes a run, too, whose newest checkpoint it is, or a model that --export wrote "
        "or that comes from Hugging Face; there the folder alone will do."},
       {"--no-strict", &O::no_strict, Anything{}, kTrain, "", "",
        "Loads what fits of --checkpoint or --init-from, and says what differs. Parameters that are not there begin "
        "anew (adapters, a head), others are passed over. A vocabulary that has grown keeps its first rows. States of "
        "another optimizer begin anew, and moments that were kept in another dtype are converted."},
       {"--resume", &O::resume, Anything{}, kTrain, "RUN", "",
        "Goes on with the run in this folder, with its options from RUN/config.toml and those given here; or from one "
        "of its checkpoints, RUN/step-N. auto goes on with the run in --run, if there is one; never does not. Data, "
        "model, tokens per step, seed and optimizer stay those of the run."},
       {"--export", &O::export_model, Anything{}, kTrain, "", "",
        "Writes RUN/model at the end, a folder that Hugging Face's transformers reads."},
       {"--export-best", &O::export_best, Anything{}, kTrain, "", "",
        "Writes the weights of RUN/best instead of those of the last step, with --export."},
       {"--trace-steps", &O::trace_steps, Anything{}, kTrain, "", "none", "Traces these steps, for Perfetto."},
       {"--output", &O::output, Anything{}, kPrepare | kReport, "PATH", "prepare: none; report: RUN/report.html",
        "Folder for the tokens, or file for the HTML page."},
       {"--watch", &O::watch, Anything{}, kReport, "", "",
        "Writes the page again every few seconds while a run goes on."},
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
        "Number of likeliest tokens of which one is drawn. 0 draws from all."},
       {"--prompt", &O::prompt, Anything{.may_be_empty = true}, kTrainAndSample, "TEXT", "a new line",
        "Text that a sample begins with. sample reads it from standard input where it is -, or where it is not given "
        "and standard input is a pipe or a file."}}};
}

Group completion() {
  return {
      "Completion", "", {{"SHELL", &O::shell, words(kShells), kCompletion, "", "", "Shell that the script is for."}}};
}

}  // namespace

std::vector<Group> output_groups() { return {shown_and_kept(), samples(), completion()}; }

}  // namespace trainer
