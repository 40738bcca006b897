#include "training/export_tokenizer.h"

#include <fmt/format.h>

#include "files/durable_file.h"
#include "files/json.h"
#include "tokenizers/bytes.h"

namespace trainer {

namespace {

// The text of a token that tokenizer.json lists among the added ones; empty: it does not.
std::string added_token(const fsdp::files::Json& tokenizer, int32_t id) {
  for (const auto& token : tokenizer.value("added_tokens", fsdp::files::Json::array())) {
    if (token.value("id", -1) == id) return token.value("content", "");
  }
  return "";
}

std::string tokenizer_configuration(const tokenizers::Tokenizer& tokenizer, const tokenizers::Tokenizer::File& file,
                                    int64_t context) {
  const std::string name = fmt::format("tokenizer '{}'", tokenizer.name());
  const auto json = fsdp::files::parse_json(file.bytes, name);
  // Classes for a kind of model would put their own way to split a text in the place of the file's.
  fsdp::files::OrderedJson configuration = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                            {"model_max_length", context},
                                            {"clean_up_tokenization_spaces", false}};
  if (const auto end = tokenizer.end_of_text()) configuration["eos_token"] = added_token(json, *end);
  return configuration.dump(2) + "\n";
}

}  // namespace

void export_tokenizer(const std::filesystem::path& folder, const tokenizers::Tokenizer& tokenizer, int64_t context) {
  tokenizers::Tokenizer::File file = tokenizer.file();
  if (tokenizer.name() == "bytes") file.bytes = tokenizers::bytes_as_hugging_face();
  fsdp::files::write_durably(folder / file.name, file.bytes);
  if (file.name != "tokenizer.json") return;
  fsdp::files::write_durably(folder / "tokenizer_config.json", tokenizer_configuration(tokenizer, file, context));
}

}  // namespace trainer
