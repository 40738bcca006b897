#include "data/corpus.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/byte_tokens.h"
#include "data/cache.h"
#include "data/file_list.h"
#include "data/sources.h"
#include "data/text_files.h"
#include "data/token_file.h"

namespace data {

namespace fs = std::filesystem;

namespace {

using Tokenizer = std::shared_ptr<const tokenizers::Tokenizer>;

void check(const Corpus& corpus, const CorpusOptions& options) {
  check_window(*corpus.training, options.context, fmt::format("data '{}'", options.data));
  if (options.validation.empty()) return;
  check_window(*corpus.validation, options.context, fmt::format("data '{}' to validate with", options.validation));
}

// Validates with `separate`, the tokens that lie apart from the others for that, if any do. Where these have no window,
// which those after the last end of a line may be too few for, it is the end of all tokens, or nothing.
void hold_back(Corpus& corpus, Tokens separate, const CorpusOptions& options) {
  if (separate && separate->size() > options.context) {
    corpus.validation = std::move(separate);
    return;
  }
  corpus.held_back = options.validation_fraction;
  const Tokens all = separate ? joined({corpus.training, std::move(separate)}) : corpus.training;
  TokenSplit split = split_tokens(all, options.validation_fraction, options.context);
  if (!split.validation) return;
  corpus.training = std::move(split.training);
  corpus.validation = std::move(split.validation);
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

Corpus open_bytes(const CorpusOptions& options, const std::shared_ptr<const TextFiles>& text, Tokenizer tokenizer) {
  Corpus corpus{.training = byte_tokens(text),
                .tokenizer = std::move(tokenizer),
                .passed_over = text->passed_over(),
                .facts = text->facts()};
  if (options.validation.empty()) {
    hold_back(corpus, nullptr, options);
  } else {
    const auto validation = std::make_shared<const TextFiles>(options.validation);
    append(corpus.passed_over, validation->passed_over());
    corpus.facts = together(corpus.facts, validation->facts());
    corpus.validation = byte_tokens(validation);
  }
  return corpus;
}

// The text that is encoded, for as long as it is read.
struct Texts {
  Texts(std::shared_ptr<const TextFiles> all, const CorpusOptions& options) : text(std::move(all)) {
    if (options.validation.empty()) {
      split = split_text(*text, options.validation_fraction);
    } else {
      validation.emplace(options.validation);
      split = {.training = all_of(*text), .validation = all_of(*validation)};
    }
  }

  TextFacts facts() const { return validation ? together(text->facts(), validation->facts()) : text->facts(); }

  std::shared_ptr<const TextFiles> text;
  std::optional<TextFiles> validation;
  TextSplit split;
};

Corpus open_encoded(const CorpusOptions& options, const TextSplit& text, Tokenizer tokenizer, const fs::path& cache,
                    const OnProgress& progress) {
  const fs::path folder = cached_token_folder(cache, text, *tokenizer, options.threads, progress);
  Corpus corpus{.training = open_token_files({folder / "train.bin"}), .tokenizer = std::move(tokenizer)};
  corpus.facts.not_utf8 = files_not_utf8_of(folder);
  Tokens validation = text.validation.size() > 0 ? open_token_files({folder / "val.bin"}) : nullptr;
  if (options.validation.empty()) {
    corpus.held_back = options.validation_fraction;  // what the text was cut for
    hold_back(corpus, std::move(validation), options);
  } else {
    corpus.validation = std::move(validation);
  }
  return corpus;
}

// The tokenizer that lies beside the files; null when there is none.
Tokenizer tokenizer_beside(const std::string& data) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(data, ignored) ? fs::path(data) : fs::path(data).parent_path();
  const fs::path found = folder.empty() ? "." : folder;
  return tokenizers::has_tokenizer(found) ? tokenizers::make_tokenizer(found.string()) : nullptr;
}

// As files that this program wrote are.
bool is_listed(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file.parent_path() / kFileList, ignored);
}

Corpus open_tokens(const CorpusOptions& options) {
  if (options.trained_vocabulary > 0) {
    throw fsdp::Error(
        fmt::format("data '{}' is tokens already: no tokenizer can be trained on it. Name a text.", options.data));
  }
  const TokenFiles files = find_token_files(options.data);
  check_listed_files_if_any(options.data);
  Corpus corpus{.training = open_token_files(files.training)};
  if (TokenFile(files.training.front()).kind() == TokenKind::kNanoGpt && !is_listed(files.training.front())) {
    corpus.headerless = files.training.front().filename().string();
  }
  corpus.facts.not_utf8 = files_not_utf8_of(options.data);
  corpus.tokenizer =
      options.tokenizer.empty() ? tokenizer_beside(options.data) : tokenizers::make_tokenizer(options.tokenizer);
  if (!options.validation.empty()) {
    corpus.validation = open_token_files(find_token_files(options.validation).training);
  } else {
    Tokens separate = files.validation.empty() ? nullptr : open_token_files(files.validation);
    hold_back(corpus, std::move(separate), options);
  }
  check(corpus, options);
  return corpus;
}

Corpus open_one_text(const CorpusOptions& options, const OnProgress& progress) {
  const fs::path cache = options.cache.empty() ? cache_folder() : options.cache;
  auto text = std::make_shared<const TextFiles>(options.data);
  Tokenizer tokenizer;
  if (options.trained_vocabulary <= 0) {
    tokenizer = tokenizers::make_tokenizer(options.tokenizer.empty() ? "bytes" : options.tokenizer);
  }
  Corpus corpus;
  if (tokenizer && tokenizer->name() == "bytes") {
    corpus = open_bytes(options, text, std::move(tokenizer));
  } else {
    const Texts texts(std::move(text), options);
    if (!tokenizer) tokenizer = cached_tokenizer(cache, texts.split.training, options.trained_vocabulary);
    corpus = open_encoded(options, texts.split, std::move(tokenizer), cache, progress);
    TextFacts facts = texts.facts();
    facts.not_utf8 = corpus.facts.not_utf8;  // as it was found in encoding
    corpus.facts = std::move(facts);
    corpus.passed_over = texts.text->passed_over();
    if (texts.validation) append(corpus.passed_over, texts.validation->passed_over());
  }
  check(corpus, options);
  return corpus;
}

// Throws Error unless all sources have one tokenizer.
void check_tokenizers(const std::vector<Corpus>& parts, const std::vector<Source>& sources) {
  const auto bytes_of = [](const Corpus& part) {
    return part.tokenizer ? part.tokenizer->file().bytes : std::string();
  };
  for (size_t i = 1; i < parts.size(); ++i) {
    if (bytes_of(parts[i]) == bytes_of(parts[0])) continue;
    throw fsdp::Error(
        fmt::format("data '{}' and '{}' were made with different tokenizers. Make both with the same one.",
                    sources[0].path, sources[i].path));
  }
}

Corpus joined_corpus(std::vector<Corpus> parts, const std::vector<Source>& sources, bool validation_is_common) {
  check_tokenizers(parts, sources);
  Corpus all{.tokenizer = parts[0].tokenizer,
             .facts = parts[0].facts,
             .held_back = parts[0].held_back,
             .headerless = parts[0].headerless};
  std::vector<Tokens> training, validation;
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t size = parts[i].training->size();
    all.sources.push_back({sources[i].path, {.first = first, .tokens = size, .weight = sources[i].weight}});
    first += size;
    training.push_back(parts[i].training);
    if (parts[i].validation && (i == 0 || !validation_is_common)) validation.push_back(parts[i].validation);
    append(all.passed_over, parts[i].passed_over);
    if (i > 0) all.facts = together(all.facts, parts[i].facts);
    if (all.headerless.empty()) all.headerless = parts[i].headerless;
  }
  all.training = joined(std::move(training));
  if (!validation.empty()) all.validation = joined(std::move(validation));
  return all;
}

// Each of the sources by `open`, as one.
template <typename Open>
Corpus open_each(const CorpusOptions& options, Open open) {
  const std::vector<Source> sources = sources_in(options.data);
  if (sources.size() > 1 && options.trained_vocabulary > 0) {
    throw fsdp::Error(
        fmt::format("data '{}': no tokenizer can be trained on several texts at once. Train it on one with `prepare`, "
                    "and name its file with --tokenizer.",
                    options.data));
  }
  std::vector<Corpus> parts;
  for (const Source& source : sources) {
    CorpusOptions one = options;
    one.data = source.path;
    parts.push_back(open(one));
  }
  Corpus all = joined_corpus(std::move(parts), sources, !options.validation.empty());
  DataOrder check_weights(all.ordered(), options.context, /*seed=*/0);
  return all;
}

}  // namespace

Corpus open_text(const CorpusOptions& options, const OnProgress& progress) {
  return open_each(options, [&](const CorpusOptions& one) { return open_one_text(one, progress); });
}

Corpus open_corpus(const CorpusOptions& options, const OnProgress& progress) {
  return open_each(options, [&](const CorpusOptions& one) {
    return names_token_files(one.data) ? open_tokens(one) : open_one_text(one, progress);
  });
}

std::vector<OrderedSource> Corpus::ordered() const {
  std::vector<OrderedSource> ordered;
  if (sources.empty()) ordered.push_back({.tokens = training->size()});
  for (const CorpusSource& source : sources) ordered.push_back(source.tokens);
  return ordered;
}

int64_t Corpus::windows(int64_t context) const {
  int64_t windows = 0;
  for (const OrderedSource& source : ordered()) windows += std::max<int64_t>(0, source.tokens - 1) / context;
  return windows;
}

std::string vocabulary_problem(const Corpus& corpus, int64_t vocabulary) {
  if (!corpus.tokenizer || corpus.tokenizer->vocabulary() <= vocabulary) return "";
  return fmt::format(
      "tokenizer '{}' has {} tokens, and the model has a vocabulary of {}. Give the model the tokenizer's "
      "vocabulary, or use another tokenizer.",
      corpus.tokenizer->name(), corpus.tokenizer->vocabulary(), vocabulary);
}

}  // namespace data
