#include "fsdp-train/prepare.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "console/terminal.h"
#include "console/units.h"
#include "data/cache.h"
#include "data/text_files.h"
#include "fsdp-train/prepare_bar.h"
#include "run/collect_problems.h"
#include "tokenizers/sentencepiece.h"

namespace trainer {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int64_t kMostThreads = 1024;

// The texts, for as long as their parts are used.
struct Texts {
  explicit Texts(const Preparation& options) : text(options.text) {
    if (options.validation_text.empty()) {
      split = data::split_text(text, options.validation_fraction);
    } else {
      validation.emplace(options.validation_text);
      split = {.training = data::all_of(text), .validation = data::all_of(*validation)};
    }
  }

  std::vector<std::string> passed_over() const {
    std::vector<std::string> all = text.passed_over();
    if (validation) all.insert(all.end(), validation->passed_over().begin(), validation->passed_over().end());
    return all;
  }

  data::TextFacts facts() const {
    return validation ? data::together(text.facts(), validation->facts()) : text.facts();
  }

  data::TextFiles text;
  std::optional<data::TextFiles> validation;
  data::TextSplit split;
};

void check_out(const std::string& out) {
  if (out.empty()) throw fsdp::Error("--output is missing: name a folder for the tokens.");
  std::error_code ignored;
  if (!fs::exists(out, ignored) || (fs::is_directory(out, ignored) && fs::is_empty(out, ignored))) return;
  throw fsdp::Error(
      fmt::format("--output '{}' is there already, and nothing is overwritten. Remove it, or name another.", out));
}

void check_numbers(const Preparation& options, std::vector<std::string>& problems) {
  const double fraction = options.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    problems.push_back(
        fmt::format("the fraction to validate with is {}; it must be at least 0 and below 1.", fraction));
  }
  if (options.threads < 1 || options.threads > kMostThreads) {
    problems.push_back(fmt::format("--threads is {}; it must be 1 to {}.", options.threads, kMostThreads));
  }
  if (options.trained_vocabulary < 0) {
    problems.push_back(
        fmt::format("the vocabulary to train is {}; it must be 0 or above.", options.trained_vocabulary));
  }
  if (options.trained_vocabulary > 0 && !tokenizers::has_sentencepiece()) {
    collect_problems(problems, [&] { tokenizers::train_sentencepiece({}, options.trained_vocabulary); });
  }
}

}  // namespace

std::vector<std::string> prepare_problems(const Preparation& options) {
  std::vector<std::string> problems;
  if (options.text.empty()) {
    problems.emplace_back("--text is missing: name a file, or a folder of files.");
  } else {
    collect_problems_of("--text", problems, [&] { data::TextFiles text(options.text); });
  }
  if (!options.validation_text.empty()) {
    collect_problems_of("--validation", problems, [&] { data::TextFiles text(options.validation_text); });
  }
  collect_problems(problems, [&] { check_out(options.out); });
  collect_problems(problems, [&] { data::token_kind(options.kind); });
  if (options.trained_vocabulary <= 0) {
    collect_problems_of("--tokenizer", problems, [&] {
      const auto tokenizer = tokenizers::make_tokenizer(options.tokenizer);
      for (data::TokenKind kind : data::kTokenKinds) {
        if (options.kind == data::format_of(kind).name) data::check_kind(kind, *tokenizer);
      }
    });
  }
  check_numbers(options, problems);
  return problems;
}

Prepared prepare(const Preparation& options, const data::OnProgress& progress) {
  const Texts texts(options);
  const data::TextSplit& split = texts.split;
  const fs::path cache = options.cache.empty() ? data::cache_folder() : fs::path(options.cache);
  const auto tokenizer = options.trained_vocabulary > 0
                             ? data::cached_tokenizer(cache, split.training, options.trained_vocabulary)
                             : tokenizers::make_tokenizer(options.tokenizer);
  const data::TokenCounts tokens = data::write_token_folder(
      {.path = options.out, .kind = data::token_kind(options.kind), .threads = static_cast<int>(options.threads)},
      split, *tokenizer, progress);
  data::TextFacts facts = texts.facts();
  facts.not_utf8 = tokens.not_utf8;
  std::vector<std::string> notes = data::fact_lines(facts, /*keeps_bytes=*/tokenizer->name() == "bytes");
  if (options.validation_text.empty() && options.validation_fraction > 0 && tokens.validation == 0) {
    notes.push_back(
        fmt::format("held back nothing for validation: no line ends in the last {:.3g} % of the text; a run holds back "
                    "the last tokens",
                    100 * options.validation_fraction));
  }
  return {.bytes = split.training.size() + split.validation.size(),
          .tokens = tokens,
          .vocabulary = tokenizer->vocabulary(),
          .passed_over = texts.passed_over(),
          .notes = std::move(notes)};
}

void run_prepare(const Preparation& options) {
  const Clock::time_point began = Clock::now();
  const Prepared prepared = [&] {
    BarOnTerminal bar;
    return prepare(options, bar.on_progress());
  }();
  print(data::passed_over_text(prepared.passed_over));
  for (const std::string& note : prepared.notes) print(note + "\n");
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const bool holds_back = options.validation_text.empty() && prepared.tokens.validation > 0;
  const std::string share = holds_back ? fmt::format(" (the last {:.3g} %)", 100 * options.validation_fraction) : "";
  print(fmt::format(
      "{}: {} tokens to train on, {} to validate with{}, vocabulary {}, kind {}; {} of text in {} ({}/s)\n",
      options.out, grouped(prepared.tokens.training), grouped(prepared.tokens.validation), share, prepared.vocabulary,
      options.kind, short_bytes(static_cast<size_t>(prepared.bytes)), duration(seconds),
      short_bytes(static_cast<size_t>(static_cast<double>(prepared.bytes) / std::max(seconds, 1e-6)))));
}

}  // namespace trainer
