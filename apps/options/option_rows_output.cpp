// The options of what is shown and kept.
#include "options/option_groups.h"

namespace trainer {

namespace {

using O = Options;

}  // namespace

std::vector<Group> output_groups() {
  return {
      {"What is shown and kept",
       "output",
       {{"--run", &O::run, Anything{}, kTrain, "FOLDER", "", "for configuration, metrics, checkpoints and samples"},
        {"--log-every", &O::log_every, from(0, kMany), kTrain, "steps", "5 seconds",
         "between lines where there is no terminal"},
        {"--validate-every", &O::validate_every, from(0, kMany), kTrain, "steps", "at the end",
         "between validation losses"},
        {"--validation-windows", &O::validation_windows, from(1, kMany), kTrain, "sequences", "",
         "that a validation loss is the mean of, spread over the validation data"},
        {"--save-every", &O::save_every, from(0, kMany), kTrain, "steps", "at the end", "between checkpoints"},
        {"--save-minutes", &O::save_minutes, kNotNegative, kTrain, "minutes", "never", "between checkpoints"},
        {"--keep", &O::keep, from(0, kMany), kTrain, "checkpoints", "all", "of this run, the newest; 0: all"},
        {"--no-best", &O::no_best, Anything{}, kTrain, "", "",
         "Do not keep RUN/best, the checkpoint with the lowest validation loss. It is kept where --validate-every asks "
         "for several."},
        {"--checkpoint", &O::checkpoint, Anything{}, kTrainAndSample, "FOLDER", "none",
         "a checkpoint to go on from, with whatever else is given, or to write from"},
        {"--resume", &O::resume, Anything{}, kTrain, "WHAT", "",
         "never; auto: go on from the newest checkpoint in RUN, if there is one; or a checkpoint's folder. Data, "
         "model, tokens "
         "of a step, seed and optimizer have to be those of the checkpoint"},
        {"--export", &O::export_model, Anything{}, kTrain, "", "",
         "write RUN/model at the end, a folder that Hugging Face's transformers reads"},
        {"--export-best", &O::export_best, Anything{}, kTrain, "", "",
         "With --export: write the weights of RUN/best instead of those of the last step."},
        {"--trace-steps", &O::trace_steps, Anything{}, kTrain, "", "none", "steps that are traced, for Perfetto"},
        {"--output", &O::output, Anything{}, kPrepare | kReport, "PATH", "prepare: none; report: RUN/report.html",
         "the folder for tokens, or the HTML page"},
        {"RUN", &O::runs, Anything{}, kReport, "FOLDER", "none",
         "folders of runs, to be compared where there are more"}}},
      {"Samples",
       "samples",
       {{"--sample-every", &O::sample_every, from(0, kMany), kTrain, "steps", "at the end", "between samples"},
        {"--sample-length", &O::sample_length, from(0, kMany), kTrainAndSample, "tokens", "", "written by the model"},
        {"--temperature", &O::temperature, kNotNegative, kTrainAndSample, "", "", "0: always the likeliest token"},
        {"--top-k", &O::top_k, from(0, kMany), kTrainAndSample, "likeliest tokens", "",
         "of which one is drawn; 0: of all"},
        {"--prompt", &O::prompt, Anything{}, kTrainAndSample, "TEXT", "a new line", "what a sample begins with"}}},
  };
}

}  // namespace trainer
