#include "manual/value_hints.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/model_sizes.h"
#include "options/option_text.h"

namespace trainer {

namespace {

std::vector<std::string> offered_words(const Row& row) {
  if (const auto* words = std::get_if<Words>(&row.check)) return {words->begin(), words->end()};
  const std::string_view flag = row.flag;
  if (flag == "--model") return models::size_names();
  if (flag == "--tokenizer") return {"bytes"};
  if (flag == "--resume") return {"auto", "never"};
  if (flag == "--plan") return {"auto"};
  if (placeholder(row) == "true|false") return {"true", "false"};
  return {};
}

Paths offered_paths(const Row& row) {
  const std::string_view unit = row.unit;
  if (unit == "FOLDER" || unit == "RUN") return Paths::Folders;
  constexpr std::array kFiles = {"FILE", "PATH", "MODEL", "TOKENIZER", "MACHINE"};
  return std::ranges::find(kFiles, unit) == kFiles.end() ? Paths::None : Paths::Files;
}

}  // namespace

ValueHints hints_of(const Row& row) { return {.words = offered_words(row), .paths = offered_paths(row)}; }

const Row* row_of_words(Command command) { return row_of(entry_of(command).words); }

}  // namespace trainer
