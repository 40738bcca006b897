// The table itself: a line or two an option.
#include <algorithm>
#include <limits>

#include "option_table.h"

namespace trainer {

namespace {

// The upper bounds are far beyond use; they keep every product of sizes within 64 bits.
constexpr int64_t kMany = 1'000'000'000, kSize = 65'536, kVocabulary = 1 << 24;

WholeNumbers from(int64_t lowest, int64_t highest) { return {lowest, highest}; }

constexpr double kInfinite = std::numeric_limits<double>::infinity();
const Numbers kAboveZero{0, kInfinite, false, false, "a number above 0"};
const Numbers kNotNegative{0, kInfinite, true, false, "0 or a number above"};
const Numbers kShare{0, 1, true, true, "a number from 0 to 1"};
const Numbers kBelowOne{0, 1, true, false, "a number from 0 up to, and without, 1"};

Words names_of_schedules() {
  Words names;
  for (const Schedule& schedule : kSchedules) names.push_back(schedule.name);
  return names;
}

template <size_t kCount>
Words words(const std::array<const char*, kCount>& all) {
  return {all.begin(), all.end()};
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool names_a_tokenizer(const std::string& value) {
  constexpr const char* kTrainWord = "train:";
  if (value.starts_with(kTrainWord)) return is_number(value.substr(std::string(kTrainWord).size()));
  return !value.empty();  // whether a file is there is not known here
}

struct Group {
  const char* title;
  const char* section;
  std::vector<Row> rows;
};

using O = Options;
using M = ModelOptions;
constexpr unsigned kTrainAndSample = kTrain | kSample, kTrainAndPrepare = kTrain | kPrepare;

std::vector<Group> first_groups() {
  return {
      {"General",
       "",
       {{"--config", &O::config, Anything{}, kTrain | kPrepare | kSample, "FILE", "none",
         "TOML file of options: a key is a flag's name with _ for -, under the [section] in brackets here; flags come "
         "before it, and it before the defaults. A run's own is RUN/config.toml"},
        {"--dry-run", &O::dry_run, Anything{}, kTrain, "", "",
         "say what the model, a step and its memory come to, and stop; needs no text, writes nothing"}}},
      {"Data",
       "data",
       {{"--text", &O::text, Anything{}, kTrainAndPrepare, "PATH", "none",
         "text to learn from: a file, or a folder of files"},
        {"--data", &O::data, Anything{}, kTrain, "PATH", "none",
         "in place of --text, tokens: a file, or a folder that `fsdp-train prepare` wrote"},
        {"--validation", &O::validation, Anything{}, kTrainAndPrepare, "FILE", "the end of the training data",
         "what the validation loss is of"},
        {"--validation-fraction", &O::validation_fraction, kBelowOne, kTrainAndPrepare, "of the training data", "",
         "held back for validation where --validation names nothing"},
        {"--tokenizer", &O::tokenizer,
         Form{names_a_tokenizer, "bytes, a model's file or train: and a size such as train:4096"},
         kTrain | kPrepare | kSample, "TOKENIZER", "",
         "bytes; the file of a sentencepiece model; or train:VOCABULARY, which trains one of that size on the text"},
        {"--cache", &O::cache, Anything{}, kTrainAndPrepare, "FOLDER", "~/.cache/fsdp",
         "for the tokens of texts and for trained tokenizers"},
        {"--kind", &O::kind, words(kTokenKinds), kPrepare, "KIND", "", "of the token files: nanoGPT's or llm.c's"},
        {"--epochs", &O::epochs, kAboveZero, kTrain, "passes over the training data", "as --steps says",
         "to train for; steps follow, and where both are given what is reached first counts"}}},
      {"Model",
       "model",
       {{"--model", &M::model, Anything{}, kTrainAndSample, "MODEL", "a small GPT-2",
         "a size by name, such as gpt2; or a file"},
        {"--init-from", &M::init_from, Anything{}, kTrain, "FOLDER", "as the model's paper says",
         "of the first weights, in Hugging Face's format"},
        {"--context", &M::context, from(1, kSize), kTrainAndSample, "tokens", "128, or the model's",
         "that a prediction sees"},
        {"--width", &M::width, from(1, kSize), kTrainAndSample, "", "128, or the model's",
         "width of the layers, a multiple of the heads"},
        {"--layers", &M::layers, from(1, 4096), kTrainAndSample, "", "4, or the model's", "layers"},
        {"--heads", &M::heads, from(1, kSize), kTrainAndSample, "", "4, or the model's", "attention heads a layer"},
        {"--key-value-heads", &M::key_value_heads, from(1, kSize), kTrainAndSample, "", "the model's",
         "heads of keys and values, which the attention heads share"},
        {"--mlp-width", &M::mlp_width, from(1, 16 * kSize), kTrainAndSample, "", "the model's",
         "width between the matrices of a layer's MLP"},
        {"--vocabulary", &M::vocabulary, from(1, kVocabulary), kTrainAndSample, "tokens", "256, or the model's",
         "that the model knows, at least the tokenizer's"},
        {"--tie-embeddings", &M::tie_embeddings, Anything{}, kTrainAndSample, "", "the model's",
         "whether the head is the token embedding"},
        {"--dropout", &M::dropout, kBelowOne, kTrain, "", "the model's", "probability that a value is dropped"},
        {"--rope-theta", &M::rope_theta, kAboveZero, kTrainAndSample, "", "the model's",
         "base of the rotary embedding's wave lengths"}}},
      {"Ranks",
       "ranks",
       {{"--ranks", &O::ranks, from(1, 1024), kTrain, "processes", "",
         "that share the model; under torchrun, SLURM or Open MPI theirs count"},
        {"--threads", &O::threads, from(0, 1024), kTrain | kSample | kPrepare, "threads", "the cores shared evenly",
         "a rank; of prepare, to encode with: 1"},
        {"--timeout", &O::timeout, from(1, kMany), kTrainAndSample, "seconds", "", "that a rank waits for another"}}},
      {"Sharding",
       "sharding",
       {{"--strategy", &O::strategy, words(kStrategies), kTrain, "STRATEGY", "", "what is divided among the ranks"},
        {"--shard-group-size", &O::shard_group_size, from(0, 1024), kTrain, "ranks",
         "all, or a host's for hybrid strategies", "that hold the model once"},
        {"--param-dtype", &O::param_dtype, words(kDtypes), kTrainAndSample, "DTYPE", "",
         "of full parameters and the passes"},
        {"--reduce-dtype", &O::reduce_dtype, words(kDtypes), kTrain, "DTYPE", "",
         "of gradients between ranks; their sums are fp32"},
        {"--buffers", &O::buffers, from(2, 1024), kTrainAndSample, "units", "",
         "full at once, where gathers copy; a layer is a unit"},
        {"--prefetch", &O::prefetch, from(0, 1024), kTrainAndSample, "units", "", "gathered ahead"}}},
  };
}

std::vector<Group> last_groups() {
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
        {"--checkpoint", &O::checkpoint, Anything{}, kTrainAndSample, "FOLDER", "none",
         "a checkpoint to go on from, or to write from"},
        {"--resume", &O::resume, Anything{}, kTrain, "WHAT", "",
         "never; auto: go on from the newest checkpoint in RUN, if there is one; or a checkpoint's folder"},
        {"--export", &O::export_model, Anything{}, kTrain, "", "",
         "write RUN/model at the end, a folder that Hugging Face's transformers reads"},
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

std::vector<Row> flattened() {
  std::vector<Row> rows;
  for (const std::vector<Group>& groups : {first_groups(), last_groups()}) {
    for (const Group& group : groups) {
      for (Row row : group.rows) {
        row.title = group.title;
        const bool only_typed = (row.commands & (kTrain | kSample)) == 0;
        row.section = only_typed ? "" : group.section;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace

const std::vector<Row>& option_rows() {
  static const std::vector<Row> rows = flattened();
  return rows;
}

const std::vector<Rivals>& rival_options() {
  static const std::vector<Rivals> rivals = {
      {"--steps", "--epochs", ""},
      {"--micro-batches", "--tokens-per-step", "one follows from the other"},
      {"--text", "--data", "both say what to learn from"},
      {"--resume", "--checkpoint", "both say where to begin"},
  };
  return rivals;
}

}  // namespace trainer
