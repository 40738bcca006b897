// The options of what is trained, and on what: a line or two each.
#include <string_view>

#include "options/numbers.h"
#include "options/option_groups.h"

namespace trainer {

namespace {

using O = AllOptions;
using M = ModelOptions;

// A trained tokenizer has a token for each byte, three for control, and at least one more.
constexpr int64_t kLeastTrained = 260, kMostTrained = 1'000'000;

bool names_a_tokenizer(const std::string& value) {
  constexpr std::string_view kTrainWord = "train:";
  if (!value.starts_with(kTrainWord)) return !value.empty();  // whether a file is there is not known here
  const auto vocabulary = whole_number_in(value.substr(kTrainWord.size()));
  return vocabulary && *vocabulary >= kLeastTrained && *vocabulary <= kMostTrained;
}

Group general_group() {
  return {
      "General",
      "",
      {{"--config", &O::config, Anything{}, kTrain | kPrepare | kSample, "FILE", "none",
        "Reads options from a TOML file: a key is a flag's name with _ for -, under the [section] that stands in "
        "brackets here. Flags come before the file, and the file before the defaults. Paths in it are relative to the "
        "working folder, or to its own where it begins with paths_relative_to = \"file\". A run's own is "
        "RUN/config.toml."},
       {"--dry-run", &O::dry_run, Anything{}, kTrain, "", "",
        "Prints the size of the model, its memory and the work of a step, and stops. Says whether that fits into this "
        "machine, what else would, and about how long the run takes. Needs no text, and writes nothing."},
       {"--memory", &O::memory, kAboveZero, kTrain, "BYTES", "what is available here",
        "Memory per host of another machine, such as 64GB or 64GiB, that --dry-run compares with."},
       {"--hosts", &O::hosts, from(1, 1024), kTrain, "HOSTS", "those of this job",
        "Number of hosts, with equally many ranks each, that --dry-run plans for."},
       {"--peak-flops", &O::peak_flops, kAboveZero, kTrain, "FLOPS", "measured here",
        "Floating-point operations per second and rank that another machine reaches at most. --dry-run tells the time "
        "by them, such as 40T."},
       {"--plan", &O::plan, Anything{}, kTrain, "MACHINE", "none",
        "Chooses options that are not given before the run begins: the mesh, the strategy, the micro-batches, "
        "recomputation, units and prefetch. They are the fastest that fit, by a simulation on this machine: a file of "
        "`fsdp-plan calibrate`, or a name such as h100 or cpu. auto takes the GPU's, or cpu. A step keeps its tokens. "
        "RUN/config.toml records the choice, and a run that resumes keeps it. --dry-run shows it."},
       {"--ignore-memory", &O::ignore_memory, Anything{}, kTrain, "", "",
        "Trains even where the plan needs more memory than this host has left. Without it such a run ends before its "
        "first step, and says what would let it fit."},
       {"--eval-only", &O::eval_only, Anything{}, kTrain, "", "",
        "Prints the validation loss and the perplexity of weights, and stops. The weights are those of --checkpoint, "
        "of --init-from, or of the newest checkpoint in --run; a run's own configuration says the rest. All "
        "validation data is used unless --validation-windows says otherwise. Nothing is written."},
       {"--json", &O::json, Anything{}, kTrain, "", "", "Prints one line of JSON instead of text, with --eval-only."}}};
}

Group data_group() {
  return {
      "Data",
      "data",
      {{"--text", &O::text, Anything{}, kTrainAndPrepare, "PATH", "none",
        "Learns from this text: a file, or a folder of files."},
       {"--data", &O::data, Anything{}, kTrain, "PATH", "none",
        "Learns from tokens, in place of --text: a file, or a folder that `fsdp-train prepare` wrote."},
       {"--validation", &O::validation, Anything{}, kTrainAndPrepare, "PATH", "the end of the training data",
        "Computes the validation loss on this text, or on these tokens."},
       {"--validation-fraction", &O::validation_fraction, kBelowOne, kTrainAndPrepare, "SHARE", "",
        "Holds this share of the training data back for validation, where --validation names nothing."},
       {"--tokenizer", &O::tokenizer,
        Form{names_a_tokenizer,
             "bytes, a tokenizer's file or folder, or train: and a vocabulary of 260 to 1000000, such as train:4096"},
        kTrain | kPrepare | kSample, "TOKENIZER", "",
        "Makes tokens of a text: bytes; a sentencepiece model; a tokenizer.json of Hugging Face, or a folder with "
        "one, or with vocab.json and merges.txt. train:VOCABULARY trains a sentencepiece model of that size on the "
        "text."},
       {"--cache", &O::cache, Anything{}, kTrainAndPrepare, "FOLDER", "~/.cache/fsdp",
        "Keeps the tokens of texts, and trained tokenizers, in this folder."},
       {"--kind", &O::kind, words(kTokenKinds), kPrepare, "KIND", "",
        "Writes token files of this kind, nanoGPT's or llm.c's."},
       {"--epochs", &O::epochs, kUpToMany, kTrain, "PASSES", "as --steps says",
        "Trains for this many passes over the training data; the steps follow. With --steps, the first that is "
        "reached ends the run."}}};
}

Group model_group() {
  return {
      "Model",
      "model",
      {{"--model", &M::model, Anything{}, kTrainAndSample, "MODEL", "a small GPT-2",
        "Chooses a model: a size by name, such as gpt2 or llama-mini (`fsdp-train models` lists them), or a file "
        "with its shape, Hugging Face's "
        "config.json or TOML."},
       {"--init-from", &M::init_from, Anything{}, kTrain, "FOLDER", "random weights, as in the model's paper",
        "Begins at step 0 with the weights of a run, or of a folder in Hugging Face's format. RUN is the run's newest "
        "checkpoint; RUN/best, RUN/step-N and RUN/model work as well. Shape and tokenizer are those of the run."},
       {"--context", &M::context, from(1, kContext), kTrainAndSample, "TOKENS", "128, or the model's",
        "Number of tokens in a sequence, which is what a prediction can see."},
       {"--width", &M::width, from(1, kSize), kTrainAndSample, "N", "128, or the model's",
        "Width of the layers, a multiple of the number of heads."},
       {"--layers", &M::layers, from(1, 4096), kTrainAndSample, "N", "4, or the model's", "Number of layers."},
       {"--heads", &M::heads, from(1, kSize), kTrainAndSample, "N", "4, or the model's",
        "Number of attention heads per layer."},
       {"--key-value-heads", &M::key_value_heads, from(1, kSize), kTrainAndSample, "N", "the model's",
        "Number of heads of keys and values, which the attention heads share."},
       {"--mlp-width", &M::mlp_width, from(1, 16 * kSize), kTrainAndSample, "N", "the model's",
        "Width between the matrices of a layer's MLP."},
       {"--vocabulary", &M::vocabulary, from(1, kVocabulary), kTrainAndSample, "TOKENS", "256, or the model's",
        "Number of tokens that the model knows, at least the tokenizer's."},
       {"--tie-embeddings", &M::tie_embeddings, Anything{}, kTrainAndSample, "", "the model's",
        "Uses the token embedding as the head, too."},
       {"--dropout", &M::dropout, kBelowOne, kTrain, "P", "the model's",
        "Probability with which a value is dropped, below 1."},
       {"--rope-theta", &M::rope_theta, kAboveZero, kTrainAndSample, "X", "the model's",
        "Base of the rotary embedding's wavelengths."}}};
}

Group adapter_group() {
  return {
      "Low-rank adapters",
      "model",
      {{"--lora", &M::lora, from(1, kSize), kTrainAndSample, "RANK", "none",
        "Rank of the adapters (LoRA). Only these are trained, small matrices beside the layers of --lora-targets; the "
        "weights of --init-from stay as they are. With --export, RUN/model has them merged, and RUN/adapter is for "
        "the Python package peft."},
       {"--lora-alpha", &M::lora_alpha, kAboveZero, kTrainAndSample, "ALPHA", "twice the rank",
        "Scale of the adapters: their results are multiplied by alpha / rank."},
       {"--lora-targets", &M::lora_targets, Anything{}, kTrainAndSample, "NAMES",
        "c_attn for GPT-2; q_proj,v_proj for Llama",
        "Linear layers that get an adapter, by the ends of their names, with commas between them; or all."},
       {"--lora-dropout", &M::lora_dropout, kBelowOne, kTrain, "P", "0",
        "Probability with which a value that goes into an adapter is dropped in training, below 1."}}};
}

}  // namespace

std::vector<Group> data_and_model_groups() { return {general_group(), data_group(), model_group(), adapter_group()}; }

}  // namespace trainer
