#include "fsdp-plan/plan_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <map>

#include "console/shell_words.h"
#include "files/printable.h"
#include "fsdp-plan/model_plan.h"
#include "fsdp-plan/named_model.h"
#include "options/command_line.h"
#include "options/did_you_mean.h"
#include "options/frozen.h"
#include "options/mesh_choice.h"
#include "options/numbers.h"
#include "planning/hardware_file.h"

namespace planner {

namespace {

// The values of options of fsdp-plan's own, by their flags, and the words that are fsdp-train's.
struct TakenWords {
  std::map<std::string, std::string> own = {};
  std::vector<std::string> others = {};
  bool as_json = false;
};

bool is_own(const std::string& flag) {
  return std::ranges::any_of(plan_options(), [&](const PlanOption& option) { return flag == option.flag; });
}

TakenWords take_words(const std::vector<std::string>& words, std::vector<std::string>& problems) {
  TakenWords taken;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    std::ranges::replace(flag, '_', '-');
    if (flag == "--json" && equals == std::string::npos) {
      taken.as_json = true;
    } else if (!is_own(flag)) {
      taken.others.push_back(words[i]);
    } else if (equals == std::string::npos && i + 1 == words.size()) {
      problems.push_back(fmt::format("{} needs a value.", flag));
    } else {
      const std::string value = equals == std::string::npos ? words[++i] : words[i].substr(equals + 1);
      if (!taken.own.emplace(flag, value).second) problems.push_back(fmt::format("{} is given twice.", flag));
    }
  }
  return taken;
}

// "--strategy all" is fsdp-plan's alone.
bool take_all_strategies(std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_next = words[i] == "--strategy" && i + 1 < words.size() && words[i + 1] == "all";
    if (!is_next && words[i] != "--strategy=all") continue;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i) + (is_next ? 2 : 1));
    return true;
  }
  return false;
}

// Takes the value of an option of fsdp-train; empty: it is not given.
std::string take_value(const std::string& flag, std::vector<std::string>& words) {
  std::string value;
  for (auto word = words.begin(); word != words.end();) {
    const bool is_next = *word == flag && word + 1 != words.end();
    if (!is_next && !word->starts_with(flag + "=")) {
      ++word;
      continue;
    }
    value = is_next ? *(word + 1) : word->substr(flag.size() + 1);
    word = words.erase(word, word + (is_next ? 2 : 1));
  }
  return value;
}

// A list says nothing of layers: options about them are problems.
void check_list_options(const trainer::CommandLine& parsed, std::vector<std::string>& problems) {
  for (const trainer::Row* row : parsed.asked_for) {
    const std::string_view flag = row->flag;
    const bool is_mesh = flag.find("-parallel") != std::string_view::npos || flag == "--tensor-parts";
    if (flag == "--model" || (row->section != std::string_view("model") && !is_mesh)) continue;
    problems.push_back(
        fmt::format("{} is given, and MODEL lists parameters, which have no shape of layers. Leave it "
                    "out, or name a model by its name or its config.json.",
                    flag == "--context" ? "--sequence or --context" : flag));
  }
}

std::vector<std::string> names_in(const models::ParameterList& list) {
  std::vector<std::string> names;
  for (const models::ListedParameter& parameter : list.parameters) names.push_back(parameter.name);
  return names;
}

void read_list(const models::ParameterList& list, const std::string& freeze, const trainer::CommandLine& parsed,
               PlanArguments& arguments) {
  check_list_options(parsed, arguments.problems);
  const std::vector<std::string> frozen = trainer::freeze_problems(freeze, names_in(list));
  arguments.problems.insert(arguments.problems.end(), frozen.begin(), frozen.end());
  try {
    arguments.target.listed =
        std::make_shared<const trainer::ListedModel>(trainer::listed_model(list, trainer::names_in(freeze)));
  } catch (const fsdp::Error& error) {
    arguments.problems.emplace_back(error.what());
  }
}

// A model of another family can be planned by its parameters.
void add_weights_beside(const std::string& model, std::vector<std::string>& problems) {
  const auto problem = std::ranges::find_if(problems, [](const std::string& one) {
    return one.starts_with("--model: ") && one.find("model_type") != one.npos;
  });
  if (problem == problems.end()) return;
  if (const std::string weights = weights_beside(model); !weights.empty())
    *problem +=
        fmt::format(" The state alone is known from the parameters: name '{}'.", fsdp::files::printable(weights));
}

void read_target(const TakenWords& taken, PlanArguments& arguments) {
  const auto value = [&](const char* flag, const std::string& otherwise) {
    const auto found = taken.own.find(flag);
    return found == taken.own.end() ? otherwise : found->second;
  };
  trainer::PlanTarget& target = arguments.target;
  target.engine = value("--engine", target.engine);
  const std::vector<std::string> engines = trainer::plan_engines();
  if (std::ranges::find(engines, target.engine) == engines.end()) {
    arguments.problems.push_back(trainer::with_hint(
        fmt::format("--engine is '{}'; it must be one of {}", target.engine, fmt::join(engines, ", ")),
        trainer::did_you_mean(target.engine, engines)));
  }
  try {
    target.hardware = trainer::hardware_of(value("--hardware", "h100"));
  } catch (const fsdp::Error& error) {
    arguments.problems.emplace_back(error.what());
  }
  if (target.hardware.has_cpus() && target.engine != "libfsdp")
    arguments.problems.push_back(fmt::format(
        "--engine is {}, and hardware '{}' has CPUs: plans on CPUs are of libfsdp alone. Leave --engine out.",
        target.engine, target.hardware.name));
  const std::string loss = value("--loss-dtype", "fp32");
  target.has_wide_loss = loss == "fp32";
  if (loss != "fp32" && loss != "same")
    arguments.problems.push_back(fmt::format("--loss-dtype is '{}'; it must be fp32 or same.", loss));
  target.memory = target.hardware.memory;
  if (const std::string memory = value("--memory", ""); !memory.empty()) {
    const std::optional<double> bytes = trainer::bytes_in(memory);
    if (!bytes || !(*bytes > 0) || *bytes > 1e15)
      arguments.problems.push_back(fmt::format("--memory is '{}'; it must be bytes above 0, such as 80GB.", memory));
    target.memory = bytes.value_or(0);
  }
}

}  // namespace

std::string command_line(std::vector<std::string> words, const std::string& command) {
  if (!command.empty()) words.insert(words.begin(), command);
  words.insert(words.begin(), "fsdp-plan");
  return trainer::shell_words(words);
}

PlanArguments read_plan(const std::vector<std::string>& words, const std::string& command) {
  PlanArguments arguments{.model = words.front(), .command = command_line(words, command)};
  TakenWords taken = take_words(words, arguments.problems);
  arguments.as_json = taken.as_json;
  arguments.all_strategies = take_all_strategies(taken.others);
  const NamedModel model = named_model(arguments.model);
  if (!model.problem.empty()) arguments.problems.push_back(model.problem);
  const std::string freeze = model.list ? take_value("--freeze", taken.others) : "";
  std::vector<std::string> line = {"train", "--dry-run"};
  line.insert(line.end(), model.shape.begin(), model.shape.end());
  if (const auto sequence = taken.own.find("--sequence"); sequence != taken.own.end())
    line.insert(line.end(), {"--context", sequence->second});
  line.insert(line.end(), taken.others.begin(), taken.others.end());
  const trainer::CommandLine parsed = trainer::parse_command_line(line, 80, trainer::Asking::Planner);
  arguments.problems.insert(arguments.problems.end(), parsed.problems.begin(), parsed.problems.end());
  add_weights_beside(arguments.model, arguments.problems);
  arguments.options = parsed.options;
  if (const auto page = taken.own.find("--html"); page != taken.own.end()) {
    arguments.page_file = page->second;
    if (page->second.empty()) arguments.problems.emplace_back("--html is ''; it must be the name of a file.");
  }
  read_target(taken, arguments);
  if (model.list) read_list(*model.list, freeze, parsed, arguments);
  if (arguments.problems.empty()) arguments.problems = trainer::mesh_problems(arguments.options);
  const std::optional<int64_t> hosts = arguments.options.hosts;
  if (hosts && arguments.problems.empty() && arguments.options.ranks % *hosts != 0)
    arguments.problems.push_back(fmt::format("--hosts {} does not divide --ranks {}, and each host has equally many.",
                                             *hosts, arguments.options.ranks));
  if (arguments.problems.empty())
    arguments.target.hosts = trainer::hosts_of_run(arguments.options, arguments.target.hardware);
  return arguments;
}

void require_shape(const char* command, PlanArguments& arguments) {
  if (arguments.target.listed == nullptr) return;
  arguments.problems.push_back(
      fmt::format("{}: MODEL lists parameters, expected a model whose layers are known. Give "
                  "its name or its config.json; fsdp-plan compare takes lists.",
                  command));
}

}  // namespace planner
