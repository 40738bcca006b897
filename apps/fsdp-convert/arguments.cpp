#include "fsdp-convert/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/checkpoint.h>
#include <fsdp/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "fsdp-convert/help.h"
#include "fsdp-convert/manual_command.h"
#include "fsdp-convert/values.h"
#include "options/did_you_mean.h"
#include "options/numbers.h"
#include "options/option_paths.h"

namespace converter {

namespace {

namespace fs = std::filesystem;
namespace formats = fsdp::formats;
using formats::Format;

constexpr const char* kNoValue = "\x01";  // that no shell hands over by accident

// Takes the arguments apart by CLI11; values are read here, so that every wrong one is found.
class Reader {
 public:
  Reader() : app_("", "fsdp-convert") {
    app_.allow_extras();  // to name all unknown arguments
    app_.set_help_flag("-h,--help");
    app_.set_version_flag("--version", FSDP_VERSION_STRING);
    for (const Flag& flag : flags()) {
      if (*flag.value == '\0') {
        options_[flag.name] = app_.add_flag(flag.name);
      } else {
        CLI::Option* option = app_.add_option(flag.name, [](const CLI::results_t&) { return true; });
        options_[flag.name] = option->take_all()->expected(0, 1)->default_str(kNoValue);
      }
    }
  }

  // True if the arguments could be taken apart, and no answer was asked for.
  bool parse(std::vector<std::string> arguments, int width, Arguments& result) {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    try {
      app_.parse(arguments);
      return true;
    } catch (const CLI::CallForHelp&) {
      result.answer = help_text(width);
    } catch (const CLI::CallForVersion& version) {
      result.answer = fmt::format("fsdp-convert {}\n", version.what());
    } catch (const CLI::ParseError& error) {
      result.problems.emplace_back(error.what());
    }
    return false;
  }

  bool has(const char* flag) const { return options_.at(flag)->count() > 0; }

  std::vector<std::string> values(const char* flag, std::vector<std::string>& problems) const {
    std::vector<std::string> values;
    if (!has(flag)) return values;
    for (const std::string& value : options_.at(flag)->results()) {
      if (value == kNoValue) {
        problems.push_back(fmt::format("{} needs a value.", flag));
      } else {
        values.push_back(value);
      }
    }
    return values;
  }

  std::optional<std::string> value(const char* flag, std::vector<std::string>& problems) const {
    const auto all = values(flag, problems);
    if (all.size() > 1) problems.push_back(fmt::format("{} is given {} times. Give it once.", flag, all.size()));
    return all.empty() ? std::nullopt : std::optional(all[0]);
  }

  void read_words(Arguments& result) const {
    bool after_unknown = false;  // its value, perhaps: naming both would count one mistake twice
    for (const std::string& word : app_.remaining()) {
      const bool is_option = word.starts_with("-");
      if (!is_option && std::exchange(after_unknown, false)) continue;
      after_unknown = is_option && word.find('=') == std::string::npos;
      if (is_option) {
        const std::string name = word.substr(0, word.find('='));
        result.problems.push_back(trainer::with_hint(fmt::format("'{}' is no option of this program", name),
                                                     trainer::did_you_mean(name, flag_names())));
      } else if (result.source.empty()) {
        result.source = word;
      } else if (result.target.empty()) {
        result.target = word;
      } else {
        result.problems.push_back(fmt::format("'{}' is one word too many: SOURCE and TARGET are given already.", word));
      }
    }
  }

 private:
  static std::vector<std::string> flag_names() {
    std::vector<std::string> names = {"--help", "--version"};
    for (const Flag& flag : flags()) names.emplace_back(flag.name);
    return names;
  }

  CLI::App app_;
  std::map<std::string, CLI::Option*> options_;
};

std::optional<Format> read_format(const Reader& reader, const char* flag, std::vector<std::string>& problems) {
  const auto word = reader.value(flag, problems);
  if (!word) return std::nullopt;
  const auto format = formats::format_named(*word);
  if (!format) {
    problems.push_back(
        trainer::with_hint(fmt::format("{} is '{}', expected one of {}", flag, *word, fmt::join(format_words(), ", ")),
                           trainer::did_you_mean(*word, format_words())));
  }
  return format;
}

void read_dtype(const Reader& reader, Arguments& result) {
  const auto word = reader.value("--dtype", result.problems);
  if (!word) return;
  const auto found = dtypes().find(*word);
  if (found != dtypes().end()) {
    result.conversion.dtype = found->second;
  } else {
    result.problems.push_back(fmt::format("--dtype is '{}', expected fp32, bf16 or fp16.", *word));
  }
}

void read_most_bytes(const Reader& reader, Arguments& result) {
  const auto word = reader.value("--max-shard-size", result.problems);
  if (!word) return;
  constexpr double kMost = 9e18;
  const auto bytes = trainer::bytes_in(*word);
  if (bytes && *bytes >= 1 && *bytes < kMost) {
    result.conversion.folder.most_bytes = static_cast<int64_t>(*bytes);
  } else {
    result.problems.push_back(fmt::format("--max-shard-size is '{}', expected a number of bytes such as 5GB.", *word));
  }
}

// "RUN/step-300" where RUN was named.
std::string meant_source(const std::string& source) {
  const auto latest = fsdp::latest_checkpoint(source);
  return latest ? latest->string() : "";
}

void recognise_source(Arguments& result) try {
  result.from = formats::recognise(result.source);
  if (result.from) return;
  std::error_code ignored;
  const std::string meant = fs::is_directory(result.source, ignored) ? meant_source(result.source) : "";
  result.problems.push_back(trainer::with_hint(
      fmt::format("SOURCE '{}' is in no format that is read here; --from names one", result.source), meant));
} catch (const fsdp::Error& error) {
  result.problems.emplace_back(error.what());
}

void settle_source(Arguments& result) {
  std::error_code ignored;
  if (result.source.empty()) {
    result.problems.emplace_back("SOURCE is missing: name a checkpoint, a Hugging Face folder or a file of tensors.");
  } else if (const std::string problem = trainer::problem_of_length(result.source); !problem.empty()) {
    result.problems.push_back("SOURCE" + problem);
  } else if (!fs::exists(result.source, ignored)) {
    result.problems.push_back(fmt::format("SOURCE '{}' is not there.", result.source));
  } else if (!result.from) {
    recognise_source(result);
  }
}

void settle_target(const std::optional<Format>& to, const Reader& reader, Arguments& result) {
  std::error_code ignored;
  if (result.target.empty()) {
    result.problems.emplace_back("TARGET is missing: name the file or folder to write, or ask for --list.");
    return;
  }
  if (const std::string problem = trainer::problem_of_length(result.target); !problem.empty()) {
    result.problems.push_back("TARGET" + problem);
    return;
  }
  const fs::path target = result.target;
  const bool is_torch_file = target.extension() == ".pt" || target.extension() == ".pth";
  if (to) {
    result.conversion.to = *to;
  } else if (is_torch_file) {
    result.conversion.to = Format::TorchFile;
  } else if (!reader.has("--to")) {
    result.problems.push_back(fmt::format("--to is missing: name the format of '{}', one of {}.", result.target,
                                          fmt::join(format_words(), ", ")));
    return;
  }
  const bool is_there = fs::exists(fs::symlink_status(target, ignored));
  const bool is_empty_folder = fs::is_directory(target, ignored) && fs::is_empty(target, ignored);
  if (is_there && !is_empty_folder && result.conversion.existing == formats::Existing::Refuse) {
    result.problems.push_back(
        fmt::format("TARGET '{}' is there already. Name another one, or replace it with --force.", result.target));
  }
  if (reader.has("--max-shard-size") && result.conversion.to != Format::HuggingFace) {
    result.problems.emplace_back("--max-shard-size is for --to hf alone. Leave it out.");
  }
}

}  // namespace

Arguments parse_arguments(const std::vector<std::string>& arguments, int width) {
  Arguments result;
  Reader reader;
  if (!reader.parse(arguments, width, result)) return result;
  if (asks_for_manual(arguments)) {
    answer_manual(arguments, result);
    return result;
  }
  reader.read_words(result);
  result.task = reader.has("--list") ? Task::List : Task::Convert;
  result.from = read_format(reader, "--from", result.problems);
  const auto to = read_format(reader, "--to", result.problems);
  read_dtype(reader, result);
  read_most_bytes(reader, result);
  result.conversion.model_only = reader.has("--model-only");
  result.conversion.transposed = reader.values("--transpose", result.problems);
  result.buffers = reader.values("--buffer", result.problems);
  if (reader.has("--force")) result.conversion.existing = formats::Existing::Replace;
  settle_source(result);
  if (result.task == Task::Convert) {
    settle_target(to, reader, result);
  } else if (!result.target.empty()) {
    result.problems.push_back(fmt::format("'{}' is one word too many: --list takes SOURCE alone.", result.target));
  }
  return result;
}

}  // namespace converter
