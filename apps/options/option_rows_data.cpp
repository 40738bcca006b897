// The options of what is trained, and on what: a line or two each.
#include <algorithm>

#include "options/option_groups.h"

namespace trainer {

namespace {

using O = Options;
using M = ModelOptions;

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool names_a_tokenizer(const std::string& value) {
  constexpr const char* kTrainWord = "train:";
  if (value.starts_with(kTrainWord)) return is_number(value.substr(std::string(kTrainWord).size()));
  return !value.empty();  // whether a file is there is not known here
}

}  // namespace

std::vector<Group> data_and_model_groups() {
  return {
      {"General",
       "",
       {{"--config", &O::config, Anything{}, kTrain | kPrepare | kSample, "FILE", "none",
         "TOML file of options: a key is a flag's name with _ for -, under the [section] in brackets here; flags come "
         "before it, and it before the defaults. A run's own is RUN/config.toml"},
        {"--dry-run", &O::dry_run, Anything{}, kTrain, "", "",
         "say what the model, a step and its memory come to, and stop; needs no text, writes nothing"},
        {"--eval-only", &O::eval_only, Anything{}, kTrain, "", "",
         "Print the validation loss and the perplexity of weights, and stop. The weights are those of --checkpoint, of "
         "--init-from, or of the newest checkpoint in --run; a run's own configuration says the rest. All validation "
         "data is used unless --validation-windows says otherwise. Nothing is written."},
        {"--json", &O::json, Anything{}, kTrain, "", "", "With --eval-only: print one line of JSON instead of text."}}},
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
        {"--epochs", &O::epochs, kUpToMany, kTrain, "passes over the training data", "as --steps says",
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
      {"Low-rank adapters",
       "model",
       {{"--lora", &M::lora, from(1, kSize), kTrainAndSample, "", "none",
         "Rank of the adapters (LoRA). Only these are trained, small matrices beside the layers of --lora-targets; the "
         "weights of --init-from stay as they are. With --export, RUN/model has them merged, and RUN/adapter is for "
         "the Python package peft."},
        {"--lora-alpha", &M::lora_alpha, kAboveZero, kTrainAndSample, "", "twice the rank",
         "Scale of the adapters: what they give is multiplied by alpha / rank."},
        {"--lora-targets", &M::lora_targets, Anything{}, kTrainAndSample, "NAMES",
         "c_attn for GPT-2; q_proj,v_proj for Llama",
         "Linear layers that get an adapter, by the ends of their names, with commas between them; or all."},
        {"--lora-dropout", &M::lora_dropout, kBelowOne, kTrain, "", "0",
         "Probability that a value that goes into an adapter is dropped in training."}}},
  };
}

}  // namespace trainer
