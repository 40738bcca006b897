#include "fsdp-train/inputs.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "data/sources.h"
#include "data/text_files.h"
#include "data/token_file.h"
#include "fsdp-train/prepare_bar.h"
#include "options/resolve.h"
#include "run/collect_problems.h"
#include "run/run_folder.h"
#include "tokenizers/sentencepiece.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kBytes = 256;                    // the vocabulary of small models
constexpr std::string_view kTrainWord = "train:";  // of --tokenizer

const std::string& data_of(const Options& options) { return options.text.empty() ? options.data : options.text; }

// None where their weights are wrong, which is said when they are opened.
std::vector<data::Source> sources_of(const Options& options) try {
  return data::sources_in(data_of(options));
} catch (const fsdp::Error&) {
  return {};
}

// Whether a tokenizer, which may have to be trained, reads a text: that may take long.
bool encodes(const Options& options) {
  if (options.tokenizer == "bytes") return false;
  if (!options.text.empty()) return true;
  const std::vector<data::Source> sources = sources_of(options);
  return std::ranges::any_of(sources, [](const auto& source) { return !data::names_token_files(source.path); });
}

// Of the tokenizer that is to be trained; 0: none is.
int64_t trained_vocabulary(const Options& options) {
  return options.tokenizer.starts_with(kTrainWord) ? std::stoll(options.tokenizer.substr(kTrainWord.size())) : 0;
}

data::Corpus open(const Options& options, const data::OnProgress& progress = {}) {
  const bool is_default = options.tokenizer == "bytes";
  const data::CorpusOptions corpus = {
      .data = data_of(options),
      .validation = options.validation,
      .validation_fraction = options.validation_fraction,
      .tokenizer = trained_vocabulary(options) > 0 || is_default ? "" : options.tokenizer,
      .trained_vocabulary = trained_vocabulary(options),
      .cache = options.cache,
      .context = options.model.context};
  return options.text.empty() ? data::open_corpus(corpus, progress) : data::open_text(corpus, progress);
}

// Problems that can be found before a text is encoded.
void check_text(const Options& options, std::vector<std::string>& problems) {
  collect_problems(problems, [&] { data::sources_in(data_of(options)); });
  for (const data::Source& source : sources_of(options)) {
    if (!options.text.empty() || !data::names_token_files(source.path)) {
      collect_problems(problems, [&] { data::TextFiles text(source.path); });
    }
  }
  if (!options.validation.empty()) collect_problems(problems, [&] { data::TextFiles text(options.validation); });
  const int64_t vocabulary = trained_vocabulary(options);
  if (vocabulary == 0) {
    collect_problems(problems, [&] { tokenizers::make_tokenizer(options.tokenizer); });
  } else if (!tokenizers::has_sentencepiece()) {
    collect_problems(problems, [&] { tokenizers::train_sentencepiece({}, vocabulary); });
  }
}

std::string checkpoint_problem(const std::string& checkpoint) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::path(checkpoint) / "manifest.json", ignored)) return "";
  if (!fs::exists(checkpoint, ignored)) return fmt::format("checkpoint '{}' does not exist.", checkpoint);
  return fmt::format("checkpoint '{}' has no manifest.json: it is no checkpoint. Name a folder such as RUN/step-300.",
                     checkpoint);
}

}  // namespace

std::vector<std::string> checkpoint_problems(const Options& options) {
  std::vector<std::string> problems;
  const std::string folder = named_checkpoint(options);
  const std::string problem = folder.empty() ? "" : checkpoint_problem(folder);
  if (!problem.empty()) problems.push_back(problem);
  return problems;
}

std::optional<int64_t> Inputs::windows(int64_t context) const {
  return corpus.training ? std::optional(corpus.windows(context)) : std::nullopt;
}

Inputs read_inputs(const Options& options) {
  Inputs inputs;
  const bool is_named = !data_of(options).empty();  // that it is not has been said already
  if (is_named && encodes(options)) check_text(options, inputs.problems);
  if (is_named && !encodes(options)) {
    collect_problems(inputs.problems, [&] { inputs.corpus = open(options); });
  }
  for (const std::string& problem : checkpoint_problems(options)) inputs.problems.push_back(problem);
  if (options.dry_run || options.eval_only) return inputs;
  for (const std::string& problem : run_folder_problems(options)) inputs.problems.push_back(problem);
  return inputs;
}

std::vector<std::string> encode_text(const Options& options, Inputs& inputs) {
  std::vector<std::string> problems;
  if (inputs.corpus.training) return problems;
  BarOnTerminal bar;
  collect_problems(problems, [&] { inputs.corpus = open(options, bar.on_progress()); });
  return problems;
}

PrepareOptions prepare_options(const Options& options) {
  const int64_t vocabulary = trained_vocabulary(options);
  return {.text = options.text,
          .validation_text = options.validation,
          .validation_fraction = options.validation_fraction,
          .out = options.output,
          .tokenizer = vocabulary > 0 ? "" : options.tokenizer,
          .trained_vocabulary = vocabulary,
          .kind = options.kind,
          .threads = options.threads > 0 ? options.threads : 1,
          .cache = options.cache};
}

std::string fit_vocabulary(Options& options, const data::Corpus& corpus) {
  const bool is_open = options.model.vocabulary == kBytes && !options.model_options.vocabulary;
  if (is_open && corpus.tokenizer) options.model.vocabulary = corpus.tokenizer->vocabulary();
  return data::vocabulary_problem(corpus, options.model.vocabulary);
}

}  // namespace trainer
