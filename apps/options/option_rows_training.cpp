// The options of how it is trained.
#include <limits>

#include "options/option_groups.h"

namespace trainer {

namespace {

using O = AllOptions;

Words names_of_schedules() {
  Words names;
  for (const Schedule& schedule : kSchedules) names.push_back(schedule.name);
  return names;
}

}  // namespace

std::vector<Group> training_groups() {
  return {
      {"Training",
       "training",
       {{"--steps", &O::steps, from(1, kMany), kTrain, "STEPS", "1000, or 300 with --model, --init-from or --lora",
         "Steps from the beginning of the run to its end."},
        {"--batch", &O::batch, from(1, kSize), kTrain, "SEQUENCES", "", "Sequences per rank and micro-batch."},
        {"--micro-batches", &O::micro_batches, from(1, kSize), kTrain, "N", "",
         "Micro-batches per rank and step, whose gradients add up."},
        {"--tokens-per-step", &O::target_tokens_per_step, from(1, kMany), kTrain, "TOKENS", "as --micro-batches says",
         "Tokens of all ranks per step. --micro-batches follows, rounded to the nearest number."},
        {"--patience", &O::patience, from(0, kMany), kTrain, "VALIDATIONS", "never",
         "Ends training after this many validations without a better loss. 0 never does."},
        {"--on-nonfinite", &O::on_nonfinite, words(kOnNonfinite), kTrain, "ACTION", "",
         "Stops at a loss or a gradient that is not finite, or skips its step. The loss scale of fp16 skips steps of "
         "its own."},
        {"--freeze", &O::freeze, Anything{}, kTrain, "PATTERNS", "none",
         "Leaves parameters untrained: patterns of their names (* and ?), or the names of modules, with commas between "
         "them, such as transformer.wte,transformer.h.0. They need no gradient and no optimizer state."},
        {"--seed", &O::seed, from(0, std::numeric_limits<int64_t>::max()), kTrainAndSample, "N", "",
         "Seed of the first weights, of the order of the data and of all that is drawn."}}},
      {"Optimizer",
       "training",
       {{"--optimizer", &O::optimizer, words(kOptimizers), kTrain, "OPTIMIZER", "",
         "Optimizer. Muon moves the matrices of the layers, with AdamW for all else."},
        {"--optimizer-state", &O::optimizer_state, words(kOptimizerStates), kTrain, "DTYPE", "",
         "Dtype in which AdamW keeps its two moments: 8, 4 or 2.125 bytes per parameter. 8bit has a scale per block of "
         "64 elements, and is for ranks on the CPU."},
        {"--beta1", &O::beta1, kBelowOne, kTrain, "X", "", "Share of the mean gradient that AdamW keeps per step."},
        {"--beta2", &O::beta2, kBelowOne, kTrain, "X", "",
         "Share of the mean squared gradient that AdamW keeps per step."},
        {"--eps", &O::eps, kAboveZero, kTrain, "X", "", "Number that AdamW adds to its denominator."},
        {"--weight-decay", &O::weight_decay, kNotNegative, kTrain, "X", "",
         "Weight decay of the matrices, times the learning rate per step."},
        {"--muon-lr", &O::muon_lr, kAboveZero, kTrain, "X", "as --lr", "Highest learning rate of Muon's matrices."},
        {"--muon-momentum", &O::muon_momentum, kBelowOne, kTrain, "X", "",
         "Share of the momentum that Muon keeps per step."},
        {"--clip", &O::clip, kAboveZero, kTrain, "X", "",
         "Highest norm of the gradient. A longer gradient is scaled down to it."}}},
      {"Learning rate",
       "training",
       {{"--lr", &O::lr, kAboveZero, kTrain, "X",
         "0.512 / width, at most 0.004; 0.001 with --model, --init-from or --lora", "Highest learning rate."},
        {"--schedule", &O::schedule, names_of_schedules(), kTrain, "SCHEDULE", "",
         "Curve by which the learning rate falls."},
        {"--warmup", &O::warmup, from(0, kMany), kTrain, "STEPS", "a fifth of the steps, at most 100",
         "Steps until the learning rate is at its highest."},
        {"--final-lr", &O::final_lr, kShare, kTrain, "SHARE", "", "Learning rate at the end, as a share of --lr."},
        {"--decay-steps", &O::decay_steps, from(1, kMany), kTrain, "STEPS", "a tenth of the steps",
         "Steps at the end in which the learning rate of --schedule wsd falls."}}},
  };
}

}  // namespace trainer
