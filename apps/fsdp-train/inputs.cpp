#include "fsdp-train/inputs.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <thread>

#include "data/sources.h"
#include "data/text_files.h"
#include "data/token_file.h"
#include "fsdp-train/prepare_bar.h"
#include "options/model_choice.h"
#include "options/numbers.h"
#include "options/resolve.h"
#include "options/sample_choice.h"
#include "run/checkpoints.h"
#include "run/collect_problems.h"
#include "run/run_folder.h"
#include "tokenizers/sentencepiece.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kBytes = 256;                    // the vocabulary of small models
constexpr std::string_view kTrainWord = "train:";  // of --tokenizer

const std::string& data_of(const RunOptions& options) { return options.text.empty() ? options.data : options.text; }

// None where their weights are wrong, which is said when they are opened.
std::vector<data::Source> sources_of(const RunOptions& options) try {
  return data::sources_in(data_of(options));
} catch (const fsdp::Error&) {
  return {};
}

// True if a tokenizer encodes a text. It may have to be trained first; both may take long.
bool encodes(const RunOptions& options) {
  if (options.tokenizer == "bytes") return false;
  if (!options.text.empty()) return true;
  const std::vector<data::Source> sources = sources_of(options);
  return std::ranges::any_of(sources, [](const auto& source) { return !data::names_token_files(source.path); });
}

// The vocabulary of the tokenizer to be trained; 0 if none is.
int64_t trained_vocabulary(const CommonOptions& options) {
  if (!options.tokenizer.starts_with(kTrainWord)) return 0;
  return whole_number_in(options.tokenizer.substr(kTrainWord.size())).value_or(0);
}

const char* data_flag(const RunOptions& options) { return options.text.empty() ? "--data" : "--text"; }

// That encode a text: no rank has anything else to do meanwhile.
int64_t encoding_threads(const CommonOptions& options) {
  return options.threads > 0 ? options.threads : std::max<int64_t>(std::thread::hardware_concurrency(), 1);
}

data::CorpusOptions corpus_options(const RunOptions& options) {
  const bool is_default = options.tokenizer == "bytes";
  return {.data = data_of(options),
          .validation = options.validation,
          .validation_fraction = options.validation_fraction,
          .tokenizer = trained_vocabulary(options) > 0 || is_default ? "" : options.tokenizer,
          .trained_vocabulary = trained_vocabulary(options),
          .cache = options.cache,
          .context = options.model.context,
          .threads = static_cast<int>(encoding_threads(options))};
}

data::Corpus open(const RunOptions& options, const data::CorpusOptions& corpus, const data::OnProgress& progress = {}) {
  return options.text.empty() ? data::open_corpus(corpus, progress) : data::open_text(corpus, progress);
}

// Problems that can be found before a text is encoded.
void check_text(const RunOptions& options, std::vector<std::string>& problems) {
  collect_problems_of(data_flag(options), problems, [&] { data::sources_in(data_of(options)); });
  for (const data::Source& source : sources_of(options)) {
    if (!options.text.empty() || !data::names_token_files(source.path)) {
      collect_problems_of(data_flag(options), problems, [&] { data::TextFiles text(source.path); });
    }
  }
  if (!options.validation.empty()) {
    collect_problems_of("--validation", problems, [&] { data::TextFiles text(options.validation); });
  }
  const int64_t vocabulary = trained_vocabulary(options);
  if (vocabulary > 0 && tokenizers::has_sentencepiece()) return;
  collect_problems_of("--tokenizer", problems, [&] {
    if (vocabulary > 0) tokenizers::train_sentencepiece({}, vocabulary);  // says why it cannot
    tokenizers::make_tokenizer(options.tokenizer);
  });
}

// Opens the data. Each part of it is looked at by itself, so that one that is wrong does not hide another.
void open_parts(const RunOptions& options, Inputs& inputs) {
  const data::CorpusOptions all = corpus_options(options);
  data::CorpusOptions training = all, validation = all;
  training.validation = validation.validation = "";
  training.tokenizer = validation.tokenizer = "";
  validation.data = all.validation;
  validation.validation_fraction = 0;
  validation.trained_vocabulary = 0;
  std::vector<std::string> problems;
  collect_problems_of(data_flag(options), problems, [&] { open(options, training); });
  if (!all.validation.empty()) collect_problems_of("--validation", problems, [&] { open(options, validation); });
  if (!all.tokenizer.empty()) {
    collect_problems_of("--tokenizer", problems, [&] { tokenizers::make_tokenizer(all.tokenizer); });
  }
  if (problems.empty()) {
    collect_problems_of(data_flag(options), problems, [&] { inputs.corpus = open(options, all); });
  }
  inputs.problems.insert(inputs.problems.end(), problems.begin(), problems.end());
}

// A sentence if --init-from cannot be weights; otherwise empty. Loading them checks more.
std::string weights_problem(const std::string& path) {
  std::error_code ignored;
  if (sample_form(path) == SampleForm::Checkpoint) return "";
  if (path.empty() || fs::is_regular_file(path, ignored)) return "";
  if (!fs::exists(path, ignored)) return fmt::format("--init-from: '{}' does not exist.", path);
  for (const char* file : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(fs::path(path) / file, ignored)) return "";
  }
  return fmt::format(
      "--init-from: '{}' has neither model.safetensors nor model.safetensors.index.json, and is neither a run nor a "
      "checkpoint. Name a run, a folder in it such as RUN/best, or a folder of Hugging Face's.",
      path);
}

std::string checkpoint_problem(const char* flag, const std::string& checkpoint) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::path(checkpoint) / "manifest.json", ignored)) return "";
  if (!fs::exists(checkpoint, ignored)) return fmt::format("{}: checkpoint '{}' does not exist.", flag, checkpoint);
  return fmt::format(
      "{}: checkpoint '{}' has no manifest.json: it is no checkpoint. Name a folder such as {}RUN/step-300.", flag,
      checkpoint, flag == std::string_view("--resume") ? "RUN or " : "");
}

// From a checkpoint of its own: the weights of --init-from are not read again, and may be gone.
bool goes_on(const RunOptions& options) {
  if (options.eval_only || options.resume == "never" || options.run.empty()) return false;
  std::error_code ignored;
  return fs::is_directory(options.run, ignored) && !checkpoints_and_remains_of(options.run).empty();
}

}  // namespace

std::vector<std::string> checkpoint_problems(const RunOptions& options) {
  std::vector<std::string> problems;
  const std::string folder = named_checkpoint(options);
  const char* flag = options.checkpoint.empty() ? "--resume" : "--checkpoint";
  const std::string problem = folder.empty() ? "" : checkpoint_problem(flag, folder);
  if (!problem.empty()) problems.push_back(problem);
  return problems;
}

std::optional<int64_t> Inputs::windows(int64_t context) const {
  return corpus.training ? std::optional(corpus.windows(context)) : std::nullopt;
}

Inputs read_inputs(const RunOptions& options) {
  Inputs inputs;
  const bool is_named = !data_of(options).empty();  // that it is not has been said already
  if (is_named && encodes(options)) check_text(options, inputs.problems);
  if (is_named && !encodes(options)) open_parts(options, inputs);
  if (!goes_on(options)) {
    for (const std::string& weights : {weights_problem(options.model_options.init_from), positions_problem(options)}) {
      if (!weights.empty()) inputs.problems.push_back(weights);
    }
  }
  for (const std::string& problem : checkpoint_problems(options)) inputs.problems.push_back(problem);
  if (options.dry_run || options.eval_only) return inputs;
  for (const std::string& problem : run_folder_problems(options)) inputs.problems.push_back(problem);
  return inputs;
}

std::vector<std::string> encode_text(const RunOptions& options, Inputs& inputs) {
  std::vector<std::string> problems;
  if (inputs.corpus.training) return problems;
  BarOnTerminal bar;
  collect_problems_of(data_flag(options), problems,
                      [&] { inputs.corpus = open(options, corpus_options(options), bar.on_progress()); });
  return problems;
}

Preparation preparation_of(const PrepareOptions& options) {
  const int64_t vocabulary = trained_vocabulary(options);
  return {.text = options.text,
          .validation_text = options.validation,
          .validation_fraction = options.validation_fraction,
          .out = options.output,
          .tokenizer = vocabulary > 0 ? "" : options.tokenizer,
          .trained_vocabulary = vocabulary,
          .kind = options.kind,
          .threads = encoding_threads(options),
          .cache = options.cache};
}

std::string fit_vocabulary(RunOptions& options, const data::Corpus& corpus) {
  const bool is_open = options.model.vocabulary == kBytes && !options.model_options.vocabulary;
  if (is_open && corpus.tokenizer) options.model.vocabulary = corpus.tokenizer->vocabulary();
  const std::string problem = data::vocabulary_problem(corpus, options.model.vocabulary);
  if (problem.empty()) return "";
  return fmt::format("{}: {}", options.model_options.vocabulary ? "--vocabulary" : "--model", problem);
}

}  // namespace trainer
