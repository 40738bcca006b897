#include "options/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/version.h>

#include <algorithm>
#include <map>
#include <set>

#include "options/did_you_mean.h"
#include "options/option_value.h"
#include "options/run_choice.h"
#include "options/synonyms.h"

namespace trainer {

namespace {

// That no shell hands over by accident. CLI11 takes an empty value for none.
constexpr const char *kNoValue = "\x01", *kEmpty = "\x02";

std::string with_empty_shown(const std::string& argument) {
  const bool has_empty_value = argument.starts_with("--") && argument.ends_with('=');
  return argument.empty() || has_empty_value ? argument + kEmpty : argument;
}

void set(const Row& row, const std::string& given, AllOptions& options, std::vector<std::string>& problems) {
  const std::string text = given == kEmpty ? "" : given;
  const std::string problem = text == kNoValue ? " needs a value." : assign(row, options, scalar_of(row, text));
  if (!problem.empty()) problems.push_back(row.flag + problem);
}

// --batch_size=8 as --batch-size=8, where there is such a flag.
std::string with_dashes(const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  if (!flag.starts_with("--") || flag.find('_') == std::string::npos) return argument;
  std::string ours = flag;
  std::replace(ours.begin(), ours.end(), '_', '-');
  return row_of(ours) == nullptr ? argument : ours + argument.substr(flag.size());
}

bool names_configuration(const std::string& word) { return word.ends_with(".toml"); }

bool is_path(const std::string& word) { return !word.starts_with('-') && !names_configuration(word); }

std::string one_path_problem(const std::string& flag, const std::vector<std::string>& paths) {
  const size_t shown = std::min<size_t>(paths.size(), 4);
  const std::string more = paths.size() > shown ? fmt::format(" and {} more", paths.size() - shown) : "";
  std::string remedy = "Name their folder";
  if (flag != "--validation") {
    remedy += fmt::format(", or give each path a weight, as in {} {}:1,{}:1", flag, paths[0], paths[1]);
  }
  return fmt::format("{} takes one path, and {} are given: {}{}. {}.", flag, paths.size(),
                     fmt::join(paths.begin(), paths.begin() + static_cast<int64_t>(shown), ", "), more, remedy);
}

}  // namespace

Flags::Flags(Command command) : command_(command), app_("", "fsdp-train") {
  app_.allow_extras();  // to name all unknown arguments
  app_.set_help_flag("--help");
  short_help_ = app_.add_flag("-h");
  app_.set_version_flag("--version", FSDP_VERSION_STRING);
  words_ = row_of(entry_of(command).words);
  for (const Row& row : option_rows()) {
    if (!row.is_for(command) || row.takes_words()) continue;
    if (row.is_switch()) {
      options_.emplace_back(&row, app_.add_flag(row.flag));
    } else {
      CLI::Option* option = app_.add_option(row.flag, [](const CLI::results_t&) { return true; });
      option->take_last()->expected(0, 1)->default_str(kNoValue);
      options_.emplace_back(&row, option);
    }
  }
}

FlagsAnswer Flags::parse(std::vector<std::string> arguments) {
  FlagsAnswer answer;
  std::ranges::transform(arguments, arguments.begin(), with_dashes);
  arguments_ = arguments;
  std::ranges::transform(arguments, arguments.begin(), with_empty_shown);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app_.parse(arguments);
    if (short_help_->count() > 0) answer.help = AskedHelp::Short;
  } catch (const CLI::CallForHelp&) {
    answer.help = AskedHelp::Full;
  } catch (const CLI::CallForVersion& version) {
    answer.version = version.what();
  } catch (const CLI::ParseError& error) {
    answer.problems.push_back(error.what());
  }
  return answer;
}

std::string Flags::text_of(const std::string& flag) const {
  for (const auto& [row, option] : options_) {
    if (flag != row->flag || option->count() == 0) continue;
    const std::string& text = option->results().back();
    return text == kNoValue || text == kEmpty ? "" : text;
  }
  if (words_ == nullptr || flag != words_->flag) return "";
  const std::vector<std::string> words = remaining();
  const auto word = std::ranges::find_if(words, [](const std::string& one) { return !one.starts_with('-'); });
  return word == words.end() || *word == kEmpty ? "" : *word;
}

Rows Flags::apply(AllOptions& options, std::vector<std::string>& problems) const {
  Rows given;
  for (const auto& [row, option] : options_) {
    if (option->count() == 0) continue;
    given.insert(row);
    if (option->count() > 1) {
      problems.push_back(repeated(*row, *option));
    } else {
      set(*row, option->results().back(), options, problems);
    }
  }
  read_words(given, options, problems);
  return given;
}

std::vector<std::string> Flags::remaining() const {
  std::vector<std::string> words;
  bool after_unknown_option = false;
  for (const std::string& word : app_.remaining()) {
    const bool is_option = word.starts_with('-');
    if (is_option || !after_unknown_option) words.push_back(word);
    after_unknown_option = is_option;
  }
  return words;
}

void Flags::read_words(Rows& given, AllOptions& options, std::vector<std::string>& problems) const {
  std::set<std::string> told;
  for (const auto& [flag, paths] : several_paths()) {
    problems.push_back(one_path_problem(flag, paths));
    told.insert(paths.begin() + 1, paths.end());
  }
  for (const std::string& word : remaining()) {
    if (told.contains(word)) continue;
    if (word.starts_with('-') || words_ == nullptr) {
      problems.push_back(unknown(word));
    } else if (!words_->takes_several() && given.contains(words_)) {
      problems.push_back(fmt::format("'{}' is one word too many: {} is given already.", word, words_->flag));
    } else {
      given.insert(words_);
      set(*words_, word, options, problems);
    }
  }
}

std::map<std::string, std::vector<std::string>> Flags::several_paths() const {
  static const std::vector<std::string> of_one = {"--text", "--data", "--validation"};
  std::map<std::string, std::vector<std::string>> paths;
  std::string flag;
  for (const std::string& argument : arguments_) {
    const size_t equals = argument.find('=');
    if (argument.starts_with('-')) flag = argument.substr(0, equals);
    if (words_ != nullptr || std::ranges::find(of_one, flag) == of_one.end()) continue;
    if (argument.starts_with('-') && equals != std::string::npos) paths[flag].push_back(argument.substr(equals + 1));
    if (is_path(argument)) paths[flag].push_back(argument);
  }
  std::erase_if(paths, [&](const auto& entry) {
    return entry.second.size() < 2 || entry.second.front() != text_of(entry.first);
  });
  return paths;
}

std::string Flags::repeated(const Row& row, const CLI::Option& option) const {
  if (row.is_switch()) return fmt::format("{} is given {} times. Give it once.", row.flag, option.count());
  std::vector<std::string> values;
  for (const std::string& text : option.results()) values.push_back(text == kNoValue ? "no value" : text);
  return fmt::format("{} is given {} times: {}. Give it once.", row.flag, values.size(), fmt::join(values, ", "));
}

std::string Flags::unknown(const std::string& argument) const {
  const std::string name = argument.substr(0, argument.find('='));
  if (const Row* row = row_of(name)) {
    for (const CommandEntry& entry : kCommands) {
      if (!row->is_for(entry.command)) continue;
      return fmt::format("'{}' is an option of fsdp-train {}, not of fsdp-train {}.", name, entry.word,
                         entry_of(command_).word);
    }
  }
  return with_hint(fmt::format("'{}' is no option of this program", name), meant_by(name));
}

std::string Flags::meant_by(const std::string& flag) const {
  if (flag == "help") return "--help";
  if (!flag.starts_with('-')) return command_ == Command::Train || names_configuration(flag) ? path_meant(flag) : "";
  const auto is_ours = [&](const std::string& meant) {
    const Row* row = row_of(meant.substr(0, meant.find(' ')));
    return row != nullptr && row->is_for(command_);
  };
  if (const std::string meant = flag_meant(flag); is_ours(meant)) return meant;
  if (!flag.starts_with("--")) return "";
  std::vector<std::string> names = {"--help", "--version"};
  for (const auto& [known, option] : options_) names.push_back(known->flag);
  const std::string nearest = did_you_mean(flag, names);
  if (!nearest.empty()) return nearest;
  const std::string meant = flag_meant_by_spelling(flag);
  return is_ours(meant) ? meant : "";
}

}  // namespace trainer
