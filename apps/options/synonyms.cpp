#include "options/synonyms.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "options/commands.h"
#include "options/did_you_mean.h"

namespace trainer {

namespace {

struct Synonym {
  std::string_view word;
  const char* meant;
};

// In small letters, with - for _, and no dashes before it.
constexpr Synonym kFlags[] = {
    // what is trained on
    {"dataset", "--data"},
    {"data-path", "--data"},
    {"data-dir", "--data"},
    {"dataset-dir", "--data"},
    {"train-data", "--data"},
    {"train-file", "--text"},
    {"train-text", "--text"},
    {"input", "--text"},
    {"input-file", "--text"},
    {"corpus", "--text"},
    {"validation-file", "--validation"},
    {"val-file", "--validation"},
    {"val-data", "--validation"},
    {"valid-data", "--validation"},
    {"eval-data", "--validation"},
    {"validation-split-percentage", "--validation-fraction"},
    {"val-fraction", "--validation-fraction"},
    {"val-split", "--validation-fraction"},
    {"tokenizer-name", "--tokenizer"},
    {"tokenizer-model", "--tokenizer"},
    {"tokenizer-path", "--tokenizer"},
    {"cache-dir", "--cache"},
    {"num-train-epochs", "--epochs"},
    {"num-epochs", "--epochs"},
    {"max-epochs", "--epochs"},
    // the model
    {"model-type", "--model"},
    {"model-name", "--model"},
    {"config-name", "--model"},
    {"model-name-or-path", "--init-from"},
    {"pretrained", "--init-from"},
    {"pretrained-model", "--init-from"},
    {"load-weights", "--init-from"},
    {"block-size", "--context"},
    {"seq-len", "--context"},
    {"seq-length", "--context"},
    {"sequence-length", "--context"},
    {"max-seq-len", "--context"},
    {"max-seq-length", "--context"},
    {"max-length", "--context"},
    {"context-length", "--context"},
    {"n-ctx", "--context"},
    {"n-positions", "--context"},
    {"max-position-embeddings", "--context"},
    {"n-embd", "--width"},
    {"hidden-size", "--width"},
    {"d-model", "--width"},
    {"embed-dim", "--width"},
    {"dim", "--width"},
    {"n-layer", "--layers"},
    {"n-layers", "--layers"},
    {"num-layers", "--layers"},
    {"num-hidden-layers", "--layers"},
    {"depth", "--layers"},
    {"n-head", "--heads"},
    {"n-heads", "--heads"},
    {"num-heads", "--heads"},
    {"num-attention-heads", "--heads"},
    {"n-kv-heads", "--key-value-heads"},
    {"num-kv-heads", "--key-value-heads"},
    {"num-key-value-heads", "--key-value-heads"},
    {"num-query-groups", "--key-value-heads"},
    {"intermediate-size", "--mlp-width"},
    {"ffn-hidden-size", "--mlp-width"},
    {"d-ff", "--mlp-width"},
    {"vocab-size", "--vocabulary"},
    {"vocab", "--vocabulary"},
    {"tie-word-embeddings", "--tie-embeddings"},
    {"rotary-base", "--rope-theta"},
    // ranks and what is divided among them
    {"nproc", "--ranks"},
    {"nproc-per-node", "--ranks"},
    {"num-processes", "--ranks"},
    {"num-procs", "--ranks"},
    {"np", "--ranks"},
    {"num-gpus", "--ranks"},
    {"n-gpus", "--ranks"},
    {"gpus", "--ranks"},
    {"devices", "--ranks"},
    {"world-size", "--ranks"},
    {"num-threads", "--threads"},
    {"num-workers", "--threads"},
    {"omp-num-threads", "--threads"},
    {"ddp-timeout", "--timeout"},
    {"gradient-checkpointing", "--activation-checkpoint all"},
    {"activation-checkpointing", "--activation-checkpoint all"},
    {"recompute", "--activation-checkpoint all"},
    {"offload-params", "--cpu-offload"},
    {"fsdp-offload-params", "--cpu-offload"},
    {"fsdp-cpu-offload", "--cpu-offload"},
    {"activation-offloading", "--offload-activations"},
    {"enable-activation-offloading", "--offload-activations"},
    {"recompute-granularity", "--activation-checkpoint"},
    {"activation-memory-budget", "--activation-memory"},
    {"sharding-strategy", "--strategy"},
    {"sharding", "--strategy"},
    {"deepspeed", "--strategy"},
    {"zero-stage", "--strategy"},
    {"stage", "--strategy"},
    {"fsdp", "--strategy full-shard"},
    {"zero3", "--strategy full-shard"},
    {"zero2", "--strategy shard-grad-op"},
    {"zero1", "--strategy shard-optimizer"},
    {"hsdp", "--strategy hybrid-shard"},
    {"ddp", "--strategy no-shard"},
    {"bf16", "--param-dtype bf16"},
    {"fp16", "--param-dtype fp16"},
    {"half", "--param-dtype fp16"},
    {"fp32", "--param-dtype fp32"},
    {"amp", "--param-dtype"},
    {"dtype", "--param-dtype"},
    {"torch-dtype", "--param-dtype"},
    {"precision", "--param-dtype"},
    {"mixed-precision", "--param-dtype"},
    {"backward-prefetch", "--prefetch"},
    // training
    {"max-steps", "--steps"},
    {"max-iters", "--steps"},
    {"max-iterations", "--steps"},
    {"num-iterations", "--steps"},
    {"num-steps", "--steps"},
    {"num-train-steps", "--steps"},
    {"train-iters", "--steps"},
    {"train-steps", "--steps"},
    {"iters", "--steps"},
    {"iterations", "--steps"},
    {"batch-size", "--batch"},
    {"bs", "--batch"},
    {"micro-batch-size", "--batch"},
    {"train-batch-size", "--batch"},
    {"device-batch-size", "--batch"},
    {"per-device-train-batch-size", "--batch"},
    {"train-micro-batch-size-per-gpu", "--batch"},
    {"gradient-accumulation-steps", "--micro-batches"},
    {"grad-accum-steps", "--micro-batches"},
    {"grad-accum", "--micro-batches"},
    {"accumulate-grad-batches", "--micro-batches"},
    {"gradient-accumulation", "--micro-batches"},
    {"global-batch-size", "--tokens-per-step"},
    {"total-batch-size", "--tokens-per-step"},
    {"early-stopping-patience", "--patience"},
    {"random-seed", "--seed"},
    {"optim", "--optimizer"},
    {"adam-beta1", "--beta1"},
    {"adam-beta2", "--beta2"},
    {"adam-epsilon", "--eps"},
    {"adam-eps", "--eps"},
    {"wd", "--weight-decay"},
    {"grad-clip", "--clip"},
    {"clip-grad", "--clip"},
    {"max-grad-norm", "--clip"},
    {"gradient-clipping", "--clip"},
    {"gradient-clip-val", "--clip"},
    {"learning-rate", "--lr"},
    {"max-lr", "--lr"},
    {"lr-scheduler", "--schedule"},
    {"lr-scheduler-type", "--schedule"},
    {"lr-schedule", "--schedule"},
    {"lr-decay-style", "--schedule"},
    {"warmup-steps", "--warmup"},
    {"warmup-iters", "--warmup"},
    {"warmup-iterations", "--warmup"},
    {"num-warmup-steps", "--warmup"},
    {"lr-warmup-iters", "--warmup"},
    {"warmup-ratio", "--warmup"},
    {"min-lr", "--final-lr"},
    {"learning-rate-decay-frac", "--final-lr"},
    {"lr-decay-iters", "--decay-steps"},
    {"warmdown-iters", "--decay-steps"},
    // results
    {"output-dir", "--run"},
    {"out-dir", "--run"},
    {"outdir", "--run"},
    {"save-dir", "--run"},
    {"save", "--run"},
    {"log-dir", "--run"},
    {"logging-dir", "--run"},
    {"run-name", "--run"},
    {"output-path", "--output"},
    {"out", "--output"},
    {"logging-steps", "--log-every"},
    {"log-interval", "--log-every"},
    {"eval-steps", "--validate-every"},
    {"eval-every", "--validate-every"},
    {"eval-interval", "--validate-every"},
    {"val-loss-every", "--validate-every"},
    {"val-check-interval", "--validate-every"},
    {"eval-iters", "--validation-windows"},
    {"save-steps", "--save-every"},
    {"save-interval", "--save-every"},
    {"checkpoint-every", "--save-every"},
    {"checkpoint-interval", "--save-every"},
    {"save-total-limit", "--keep"},
    {"keep-last", "--keep"},
    {"resume-from-checkpoint", "--resume"},
    {"resume-from", "--resume"},
    {"load-dir", "--resume"},
    {"load", "--resume"},
    {"ckpt", "--checkpoint"},
    {"ckpt-path", "--checkpoint"},
    {"checkpoint-path", "--checkpoint"},
    {"checkpoint-dir", "--checkpoint"},
    {"model-path", "--checkpoint"},
    {"export-hf", "--export"},
    {"save-pretrained", "--export"},
    {"profiler", "--profile"},
    {"trace", "--trace-steps"},
    {"config-file", "--config"},
    {"max-new-tokens", "--sample-length"},
    {"max-tokens", "--sample-length"},
    {"num-tokens", "--sample-length"},
    {"length", "--sample-length"},
    {"start", "--prompt"},
    {"temp", "--temperature"},
};

constexpr Synonym kValues[] = {
    {"zero3", "full-shard"},
    {"zero-3", "full-shard"},
    {"stage3", "full-shard"},
    {"3", "full-shard"},
    {"fsdp", "full-shard"},
    {"full", "full-shard"},
    {"zero2", "shard-grad-op"},
    {"zero-2", "shard-grad-op"},
    {"stage2", "shard-grad-op"},
    {"2", "shard-grad-op"},
    {"zero1", "shard-optimizer"},
    {"zero-1", "shard-optimizer"},
    {"stage1", "shard-optimizer"},
    {"1", "shard-optimizer"},
    {"zero0", "no-shard"},
    {"ddp", "no-shard"},
    {"0", "no-shard"},
    {"hsdp", "hybrid-shard"},
    {"hybrid-shard-zero2", "hybrid-shard-grad-op"},
    {"bfloat16", "bf16"},
    {"bf16-mixed", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"16", "fp16"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"32", "fp32"},
    {"adam", "adamw"},
    {"adamw-torch", "adamw"},
    {"adamw-hf", "adamw"},
    {"cosine-with-min-lr", "cosine"},
    {"cosine-with-warmup", "cosine"},
    {"linear-with-warmup", "linear"},
    {"constant-with-warmup", "constant"},
    {"warmup-stable-decay", "wsd"},
    {"trapezoidal", "wsd"},
    {"none", "constant"},
    {"llmc", "llmc-gpt2"},
};

// Commands of other trainers that are options here.
constexpr Synonym kPhrases[] = {
    {"eval", "--eval-only --run"}, {"evaluate", "--eval-only --run"}, {"evaluation", "--eval-only --run"},
    {"test", "--eval-only --run"}, {"validate", "--eval-only --run"}, {"val", "--eval-only --run"},
    {"resume", "--resume"},        {"continue", "--resume"},          {"restart", "--resume"},
};

constexpr Synonym kWords[] = {
    {"generate", "sample"},  {"inference", "sample"},   {"infer", "sample"},
    {"chat", "sample"},      {"complete", "sample"},    {"write", "sample"},
    {"tokenize", "prepare"}, {"preprocess", "prepare"}, {"encode", "prepare"},
    {"fit", "train"},        {"pretrain", "train"},     {"finetune", "train"},
    {"fine-tune", "train"},  {"run", "train"},          {"launch", "train"},
    {"plot", "report"},      {"visualize", "report"},   {"summary", "report"},
    {"show", "report"},      {"compare", "report"},     {"diagnose", "doctor"},
    {"check", "doctor"},     {"info", "doctor"},        {"collect-env", "doctor"},
    {"list", "models"},      {"list-models", "models"}, {"completions", "completion"},
    {"manual", "man"},
};

std::string normal(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string result;
  for (const char c : word) {
    result += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

std::string meant_by(std::span<const Synonym> synonyms, const std::string& word,
                     const std::vector<std::string>& allowed) {
  for (const Synonym& synonym : synonyms) {
    if (synonym.word != word) continue;
    if (std::find(allowed.begin(), allowed.end(), synonym.meant) != allowed.end()) return synonym.meant;
  }
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;  // FULL_SHARD
  return did_you_mean(word, allowed);
}

}  // namespace

std::string flag_meant(std::string_view flag) {
  const std::string word = normal(flag);
  const auto* found =
      std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Synonym& s) { return s.word == word; });
  return found == std::end(kFlags) ? "" : found->meant;
}

std::string flag_meant_by_spelling(std::string_view flag) {
  std::vector<std::string> words;
  for (const Synonym& synonym : kFlags) words.emplace_back(synonym.word);
  return flag_meant(did_you_mean(normal(flag), words));
}

std::string options_meant(std::string_view word) {
  const std::string spelled = normal(word);
  const auto* found =
      std::find_if(std::begin(kPhrases), std::end(kPhrases), [&](const Synonym& s) { return s.word == spelled; });
  return found == std::end(kPhrases) ? "" : found->meant;
}

std::string value_meant(std::string_view value, const std::vector<const char*>& allowed) {
  return meant_by(kValues, normal(value), {allowed.begin(), allowed.end()});
}

std::string command_meant(std::string_view word) {
  std::vector<std::string> commands;
  for (const CommandEntry& entry : kCommands) commands.emplace_back(entry.word);
  return meant_by(kWords, normal(word), commands);
}

}  // namespace trainer
