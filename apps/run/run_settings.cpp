#include "run/run_settings.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "console/units.h"
#include "data/content.h"
#include "data/fingerprint.h"
#include "files/json.h"
#include "files/printable.h"
#include "options/option_paths.h"
#include "options/option_value.h"

namespace trainer {

namespace {

constexpr const char* kData = "the training data";
constexpr const char *kDataContent = "the content of the training data",
                     *kValidationContent = "the content of the validation data";
constexpr const char* kDataFiles = "the files of the training data";  // of data that is not hashed whole

// With another of these a run is another one.
constexpr std::array kKept = {kData,
                              kDataContent,
                              kTokensOfStep,
                              "--seed",
                              "--optimizer",
                              "--model",
                              "--context",
                              "--width",
                              "--layers",
                              "--heads",
                              "--mlp-width",
                              "--key-value-heads",
                              "--vocabulary",
                              "--rope-theta",
                              "--tie-embeddings",
                              "--freeze",
                              "--lora",
                              "--lora-alpha",
                              "--lora-targets",
                              "--tensor-parts",
                              "--sequence-parallel"};

// Sections whose options say how a run is trained; the others, and these options, say where things lie, how often
// something is shown, or what follows into an entry of its own.
constexpr std::array kSections = {"data", "model", "mesh", "sharding", "training"};
constexpr std::array kLeftOut = {"--cache", "--init-from", "--epochs", "--tokens-per-step", "--offload-directory"};

template <typename Names>
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The number of tokens and what some of them are, spread over all. Runs of versions that did not keep the content are
// compared by it.
std::string identity_of(const data::TokenSource& tokens) {
  constexpr int64_t kPlaces = 256, kTokens = 64;
  const int64_t together = std::min(kTokens, tokens.size());
  std::vector<int64_t> read(static_cast<size_t>(together));
  data::Fingerprint fingerprint;
  for (int64_t place = 0; place < kPlaces; ++place) {
    tokens.read((tokens.size() - together) * place / (kPlaces - 1), read);
    for (const int64_t token : read) fingerprint.add(std::to_string(token));
  }
  return fmt::format("{} tokens ({:08x})", grouped(tokens.size()), fingerprint.value() >> 32);
}

std::string content_of(const data::TokenSource& tokens) {
  constexpr size_t kDigits = 16;
  const std::string hash = data::content_hash(tokens).substr(0, kDigits);
  if (tokens.size() <= data::kHashedWhole) return hash;
  return fmt::format("{} (of {} tokens, spread over all)", hash, grouped(data::kHashedPlaces * data::kHashedTogether));
}

void add_model(const models::ModelConfig& model, RunSettings& settings) {
  settings["--model"] = models::name_of(model.family);
  settings["--context"] = fmt::format("{}", model.context);
  settings["--width"] = fmt::format("{}", model.width);
  settings["--layers"] = fmt::format("{}", model.layers);
  settings["--heads"] = fmt::format("{}", model.heads);
  settings["--key-value-heads"] = fmt::format("{}", model.key_value_heads_or_default());
  settings["--mlp-width"] = fmt::format("{}", model.mlp_width_or_default());
  settings["--vocabulary"] = fmt::format("{}", model.vocabulary);
  settings["--rope-theta"] = fmt::format("{}", model.rope_theta);
  const bool has_lora = model.lora.has_value();
  settings["--lora-alpha"] = has_lora ? fmt::format("{}", model.lora->alpha) : "not given";
  settings["--lora-targets"] = has_lora ? fmt::format("{}", fmt::join(model.lora->targets, ",")) : "not given";
  settings["--tie-embeddings"] = fmt::format("{}", model.tied_embeddings);
}

// Files may have moved, or be named from another folder; what is in them is compared by itself.
bool is_same(const std::string& name, const std::string& saved, const std::string& given) {
  const Row* row = row_of(name);
  return saved == given || (row != nullptr && names_same_files(*row, saved, given));
}

std::string before_and_now(const std::string& name, const std::string& saved, const std::string& given) {
  return fmt::format("{}: {} before, {} now", name, saved, given);
}

// Cells of one column in all rows have its width.
std::string row_text(const ChangedSetting& row, size_t name_width, size_t before_width) {
  return fmt::format("\n    {:<{}}  {:<{}}  {}", row.name, name_width, row.before, before_width, row.now);
}

// How many micro-batches each rank has follows from the number of ranks, where the step as a whole has the same ones.
bool follows_from_ranks(const std::string& name, const RunSettings& saved, const RunSettings& given) {
  const auto is_unchanged = [&](const char* one) {
    const auto before = saved.find(one), now = given.find(one);
    return before != saved.end() && now != given.end() && before->second == now->second;
  };
  return name == "--micro-batches" && is_unchanged(kTokensOfStep) && is_unchanged("--batch") &&
         is_unchanged("--context");
}

}  // namespace

RunSettings settings_of(const RunOptions& options, const data::Corpus& corpus) {
  RunSettings settings;
  for (const Row& row : option_rows()) {
    const bool tells = row.is_for(Command::Train) && has(kSections, row.section) && !has(kLeftOut, row.flag);
    if (!tells) continue;
    const std::optional<Scalar> value = value_of(row, options);
    settings[row.flag] = value ? fsdp::files::printable_lines(shown(*value)) : "not given";
  }
  add_model(options.model, settings);
  settings[kData] = identity_of(*corpus.training);
  if (corpus.sources.size() > 1) {
    for (const data::CorpusSource& source : corpus.sources) {
      settings[kData] += fmt::format(", {} of weight {}", grouped(source.tokens.tokens), source.tokens.weight);
    }
  }
  settings[kDataContent] = content_of(*corpus.training);
  if (corpus.training->size() > data::kHashedWhole) {
    const auto written = static_cast<std::time_t>(corpus.training->written());
    settings[kDataFiles] = fmt::format("written {:%F %T} UTC", fmt::gmtime(written));
  }
  settings[kValidationData] = corpus.validation ? identity_of(*corpus.validation) : kNoData;
  settings[kValidationContent] = corpus.validation ? content_of(*corpus.validation) : kNoData;
  settings[kTokensOfStep] = grouped(options.tokens_per_step());
  return settings;
}

std::string to_note(const RunSettings& settings) { return nlohmann::json(settings).dump(); }

RunSettings settings_from_note(const std::string& note) {
  const std::string name_of_note = "the checkpoint's note 'settings'";
  const auto fail = [&](const char* found) {
    throw fsdp::Error(fmt::format("{} is damaged: found {}, expected texts by name.", name_of_note, found));
  };
  const fsdp::files::Json json = fsdp::files::parse_json(note, name_of_note);
  if (!json.is_object()) fail("no object");
  RunSettings settings;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string()) fail("a value that is no text");
    settings[name] = value.get<std::string>();
  }
  return settings;
}

std::string difference_of_files(const RunSettings& saved, const RunSettings& given) {
  const auto before = saved.find(kDataFiles), now = given.find(kDataFiles);
  const bool is_another = before != saved.end() && now != given.end() && before->second != now->second;
  return is_another ? before_and_now(kDataFiles, before->second, now->second) : "";
}

SettingsDifference difference(const RunSettings& saved, const RunSettings& given) {
  SettingsDifference result;
  for (const auto& [name, value] : given) {
    const auto found = saved.find(name);
    if (name == kDataFiles || found == saved.end() || is_same(name, found->second, value) ||
        follows_from_ranks(name, saved, given))
      continue;
    (has(kKept, name) ? result.kept : result.free).push_back({name, found->second, value});
  }
  return result;
}

std::string in_one_line(const SettingsDifference& difference) {
  std::vector<std::string> texts;
  for (const ChangedSettings* some : {&difference.kept, &difference.free}) {
    for (const auto& [name, before, now] : *some) texts.push_back(before_and_now(name, before, now));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string in_rows(const SettingsDifference& difference) {
  const ChangedSetting heading{"name", "before", "now"};
  size_t name_width = heading.name.size(), before_width = heading.before.size();
  for (const ChangedSettings* some : {&difference.kept, &difference.free}) {
    for (const ChangedSetting& row : *some) {
      name_width = std::max(name_width, row.name.size());
      before_width = std::max(before_width, row.before.size());
    }
  }
  std::string text = row_text(heading, name_width, before_width);
  for (const ChangedSetting& row : difference.kept) text += row_text(row, name_width, before_width);
  if (!difference.kept.empty() && !difference.free.empty()) text += "\n    (and these, which may differ)";
  for (const ChangedSetting& row : difference.free) text += row_text(row, name_width, before_width);
  return text;
}

}  // namespace trainer
