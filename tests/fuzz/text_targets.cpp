// Readers of texts and tokens: configurations, tokenizers, token files.
#include "data/token_file.h"
#include "files/json.h"
#include "fsdp/error.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "models/hugging_face_config.h"
#include "models/toml_config.h"
#include "options/configuration_file.h"
#include "tokenizers/sentencepiece_check.h"
#include "tokenizers/tokenizer.h"

namespace fsdp::fuzz {

void run_model_config(std::string_view input) { models::parse_hugging_face_config(std::string(input)); }

void run_toml(std::string_view input) {
  const InputFile file(input);
  trainer::AllOptions options;
  trainer::read_configuration(file.path(), options);
  models::read_toml_config(file.path());
}

void run_tokens(std::string_view input) try {
  const InputFile file(input);
  const data::TokenFile tokens(file.path());
  std::vector<int64_t> read(static_cast<size_t>(std::min<int64_t>(tokens.size(), 1000)));
  tokens.read(tokens.size() - static_cast<int64_t>(read.size()), read);
} catch (const Error&) {
}

// Python reads a tokenizer.json of Hugging Face's itself; what comes before that is ours.
void run_tokenizer(std::string_view input) try {
  if (!input.starts_with('{')) return tokenizers::check_sentencepiece(input, "input");
  const files::Json json = files::parse_json(input, "input");
  if (json.contains("model")) return;
  const InputFile file(input);
  tokenizers::make_tokenizer(file.path());
} catch (const Error&) {
}

}  // namespace fsdp::fuzz
