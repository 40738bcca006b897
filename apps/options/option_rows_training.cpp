// The options of how it is trained.
#include <limits>

#include "options/option_groups.h"

namespace trainer {

namespace {

using O = Options;

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
       {{"--steps", &O::steps, from(1, kMany), kTrain, "steps", "", "from the beginning of the run to its end"},
        {"--batch", &O::batch, from(1, kSize), kTrain, "sequences", "", "a rank and micro-batch"},
        {"--micro-batches", &O::micro_batches, from(1, kSize), kTrain, "", "",
         "a rank and step, whose gradients add up"},
        {"--tokens-per-step", &O::target_tokens_per_step, from(1, kMany), kTrain, "tokens", "as --micro-batches says",
         "of all ranks; --micro-batches follows, rounded to the nearest"},
        {"--patience", &O::patience, from(0, kMany), kTrain, "validations", "never",
         "without a better loss after which training stops; 0: never"},
        {"--on-nonfinite", &O::on_nonfinite, words(kOnNonfinite), kTrain, "WHAT", "",
         "on a loss or gradient that is not finite; fp16's loss scale skips its own"},
        {"--freeze", &O::freeze, Anything{}, kTrain, "PATTERNS", "none",
         "Parameters that are not trained: patterns of their names (* and ?), or the names of modules, with commas "
         "between them, such as transformer.wte,transformer.h.0. They need no gradient and no optimizer state."},
        {"--seed", &O::seed, from(0, std::numeric_limits<int64_t>::max()), kTrainAndSample, "", "",
         "of the first weights, the order of the data and what is drawn"}}},
      {"Optimizer",
       "training",
       {{"--optimizer", &O::optimizer, words(kOptimizers), kTrain, "OPTIMIZER", "",
         "muon: for the matrices of the layers, with AdamW for all else"},
        {"--beta1", &O::beta1, kBelowOne, kTrain, "", "", "AdamW: how much of the mean gradient a step keeps"},
        {"--beta2", &O::beta2, kBelowOne, kTrain, "", "", "AdamW: how much of the mean squared gradient a step keeps"},
        {"--eps", &O::eps, kAboveZero, kTrain, "", "", "AdamW: added to its denominator"},
        {"--weight-decay", &O::weight_decay, kNotNegative, kTrain, "", "", "of the matrices"},
        {"--muon-lr", &O::muon_lr, kAboveZero, kTrain, "", "as --lr", "highest learning rate of Muon's matrices"},
        {"--muon-momentum", &O::muon_momentum, kBelowOne, kTrain, "", "",
         "Muon: how much of the momentum a step keeps"},
        {"--clip", &O::clip, kAboveZero, kTrain, "", "", "highest norm of the gradient"}}},
      {"Learning rate",
       "training",
       {{"--lr", &O::lr, kAboveZero, kTrain, "", "", "highest learning rate"},
        {"--schedule", &O::schedule, names_of_schedules(), kTrain, "SCHEDULE", "", "how it falls"},
        {"--warmup", &O::warmup, from(0, kMany), kTrain, "steps", "a fifth of the steps, at most 100",
         "until the highest learning rate"},
        {"--final-lr", &O::final_lr, kShare, kTrain, "of --lr", "", "that is left at the end"},
        {"--decay-steps", &O::decay_steps, from(1, kMany), kTrain, "steps", "a tenth of the steps",
         "at the end, in which --schedule wsd falls"}}},
  };
}

}  // namespace trainer
