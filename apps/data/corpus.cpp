#include "data/corpus.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <optional>
#include <utility>

#include "data/byte_tokens.h"
#include "data/cache.h"
#include "data/file_list.h"
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

// Data held back is of no use without a window.
Tokens held_back(Tokens tokens, int64_t context) { return tokens->size() > context ? tokens : nullptr; }

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

Corpus open_bytes(const CorpusOptions& options, const std::shared_ptr<const TextFiles>& text, Tokenizer tokenizer) {
  Corpus corpus{.training = byte_tokens(text), .tokenizer = std::move(tokenizer), .passed_over = text->passed_over()};
  if (options.validation.empty()) {
    TokenSplit split = split_tokens(corpus.training, options.validation_fraction, options.context);
    corpus.training = std::move(split.training);
    corpus.validation = std::move(split.validation);
  } else {
    const auto validation = std::make_shared<const TextFiles>(options.validation);
    append(corpus.passed_over, validation->passed_over());
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

  std::shared_ptr<const TextFiles> text;
  std::optional<TextFiles> validation;
  TextSplit split;
};

Corpus open_encoded(const CorpusOptions& options, const TextSplit& text, Tokenizer tokenizer, const fs::path& cache,
                    const OnProgress& progress) {
  const fs::path folder = cached_token_folder(cache, text, *tokenizer, options.threads, progress);
  Corpus corpus{.training = open_token_files({folder / "train.bin"}), .tokenizer = std::move(tokenizer)};
  if (text.validation.size() > 0) corpus.validation = open_token_files({folder / "val.bin"});
  if (corpus.validation && options.validation.empty()) {
    corpus.validation = held_back(std::move(corpus.validation), options.context);
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

Corpus open_tokens(const CorpusOptions& options) {
  if (options.trained_vocabulary > 0) {
    throw fsdp::Error(
        fmt::format("data '{}' is tokens already: no tokenizer can be trained on it. Name a text.", options.data));
  }
  const TokenFiles files = find_token_files(options.data);
  check_listed_files_if_any(options.data);
  Corpus corpus{.training = open_token_files(files.training)};
  corpus.tokenizer =
      options.tokenizer.empty() ? tokenizer_beside(options.data) : tokenizers::make_tokenizer(options.tokenizer);
  if (!options.validation.empty()) {
    corpus.validation = open_token_files(find_token_files(options.validation).training);
  } else if (!files.validation.empty()) {
    corpus.validation = held_back(open_token_files(files.validation), options.context);
  } else {
    TokenSplit split = split_tokens(corpus.training, options.validation_fraction, options.context);
    corpus.training = std::move(split.training);
    corpus.validation = std::move(split.validation);
  }
  check(corpus, options);
  return corpus;
}

}  // namespace

Corpus open_text(const CorpusOptions& options, const OnProgress& progress) {
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
    corpus.passed_over = texts.text->passed_over();
    if (texts.validation) append(corpus.passed_over, texts.validation->passed_over());
  }
  check(corpus, options);
  return corpus;
}

Corpus open_corpus(const CorpusOptions& options, const OnProgress& progress) {
  return names_token_files(options.data) ? open_tokens(options) : open_text(options, progress);
}

std::string vocabulary_problem(const Corpus& corpus, int64_t vocabulary) {
  if (!corpus.tokenizer || corpus.tokenizer->vocabulary() <= vocabulary) return "";
  return fmt::format(
      "tokenizer '{}' has {} tokens, and the model has a vocabulary of {}. Give the model the tokenizer's "
      "vocabulary, or use another tokenizer.",
      corpus.tokenizer->name(), corpus.tokenizer->vocabulary(), vocabulary);
}

}  // namespace data
