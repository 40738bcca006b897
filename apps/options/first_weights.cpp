#include "options/first_weights.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/token_file.h"
#include "options/model_choice.h"
#include "options/option_value.h"
#include "options/sample_choice.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

bool names_shape(const Rows& given) {
  constexpr std::array kShape = {"--model", "--width", "--layers", "--heads"};
  return std::ranges::any_of(kShape, [&](const char* flag) { return given.contains(row_of(flag)); });
}

// An exported model has the adapters merged into its weights.
bool comes_with_weights(const Row& row, SampleForm form) {
  const std::string_view flag = row.flag;
  if (row.section != std::string_view("model") || flag == "--init-from") return false;
  return form != SampleForm::Exported || !flag.starts_with("--lora");
}

// A text takes the run's tokenizer, unless one is chosen. Token files come with their own.
void take_tokenizer(const Rows& given, const fs::path& run, AllOptions& options) {
  std::error_code ignored;
  const bool has_one = fs::exists(run / "tokenizer.model", ignored) || fs::exists(run / "tokenizer.json", ignored);
  const bool reads_text = !options.text.empty() || !data::names_token_files(options.data);
  if (!has_one || !reads_text || given.contains(row_of("--tokenizer"))) return;
  options.tokenizer = run.string();
  options.chosen.flags.insert("--tokenizer");
  if (run.is_relative()) options.chosen.relative.insert("--tokenizer");
}

}  // namespace

fs::path run_of_weights(const std::string& path) {
  if (path.empty() || sample_form(path) == SampleForm::Unknown) return {};
  std::error_code ignored;
  const fs::path run = (run_around(path) / "").parent_path();  // without a slash at its end
  const bool is_run = fs::is_regular_file(run / "config.toml", ignored) &&
                      (sample_form(path) != SampleForm::Exported || fs::exists(run / "metrics.jsonl", ignored));
  return is_run ? run : fs::path();
}

void settle_first_weights(const Rows& given, CommandLine& line) {
  AllOptions& options = line.options;
  const std::string weights = options.model_options.init_from;
  const fs::path run = run_of_weights(weights);
  if (run.empty() || names_shape(given)) return;
  AllOptions trained;
  const ConfigurationFile file = read_configuration((run / "config.toml").string(), trained);
  line.problems.insert(line.problems.end(), file.problems.begin(), file.problems.end());
  spell_out(choose_model(trained.model_options).config, trained.model_options);
  for (const Row& row : option_rows()) {
    const std::optional<Scalar> value = value_of(row, trained);
    if (!value || given.contains(&row) || !comes_with_weights(row, sample_form(weights))) continue;
    assign(row, options, *value);
    options.chosen.flags.insert(row.flag);
    if (file.relative.contains(&row)) options.chosen.relative.insert(row.flag);
  }
  take_tokenizer(given, run, options);
}

}  // namespace trainer
