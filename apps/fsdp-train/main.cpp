// fsdp-train: trains language models, sharded over ranks.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "console/program_start.h"
#include "console/terminal.h"
#include "doctor/doctor_command.h"
#include "fsdp-train/evaluated.h"
#include "fsdp-train/first_checkpoint.h"
#include "fsdp-train/inputs.h"
#include "fsdp-train/passive_waits.h"
#include "fsdp-train/prepare.h"
#include "fsdp-train/report_command.h"
#include "generation/sample_command.h"
#include "manual/completion.h"
#include "manual/man_page.h"
#include "manual/train_program.h"
#include "options/command_line.h"
#include "options/mesh_choice.h"
#include "options/model_list.h"
#include "options/resolve.h"
#include "planning/chosen_setting.h"
#include "run/problems.h"
#include "training/dry_run_command.h"
#include "training/evaluate_command.h"
#include "training/job.h"
#include "training/stage_problems.h"
#include "training/stop_request.h"
#include "training/train.h"

namespace {

using trainer::AllOptions;
using trainer::Command;
using trainer::CommonOptions;
using trainer::RunOptions;
using Problems = std::vector<std::string>;

int refuse(const Problems& problems, const CommonOptions& options, Command command = Command::Train) {
  const std::string paths =
      options.config_paths.empty() ? "" : fmt::format(", whose paths are relative to {},", options.config_paths);
  trainer::print_problems(problems, options.config.empty() ? "" : options.config + paths, command);
  return trainer::kUsageError;
}

// The ones not among them yet.
void append(Problems& problems, const Problems& more) {
  for (const std::string& problem : more) {
    if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(problem);
  }
}

int run_train(const trainer::CommandLine& line) {
  RunOptions options = line.options;
  Problems problems = line.problems;
  if (!options.dry_run) trainer::end_when_asked(trainer::kGoOnLater);
  append(problems, trainer::plan_problems(options));
  append(problems, trainer::choose_first_checkpoint(options));
  trainer::Inputs inputs = trainer::read_inputs(options);
  append(problems, inputs.problems);
  if (problems.empty() && !options.dry_run) append(problems, trainer::encode_text(options, inputs));
  if (options.hot_restart && trainer::is_started_as_rank()) {
    problems.emplace_back(
        "--hot-restart is given, and a launcher starts the ranks, which then find nothing of each other's in memory. "
        "Leave it out, and let the launcher start the job again.");
  }
  const auto windows = inputs.windows(options.model.context);
  RunOptions resolved = options;  // by the ranks that are asked for; a launcher may have others
  const trainer::Job job{.ranks = options.ranks, .windows = windows, .ranks_are_known = !trainer::is_started_as_rank()};
  if (problems.empty() || windows) append(problems, trainer::resolve(resolved, job));
  append(problems, trainer::stage_problems(options));
  if (windows) {
    const std::string problem = trainer::fit_vocabulary(options, inputs.corpus);
    resolved.model = options.model;
    if (!problem.empty()) problems.push_back(problem);
  }
  const bool is_said_here = options.dry_run || !trainer::is_started_as_rank();
  if (!problems.empty() && is_said_here) return refuse(problems, options);
  if (!options.dry_run) return trainer::train(options, inputs.corpus, problems);
  return trainer::dry_run_command(line, resolved, windows);
}

int run_evaluation(RunOptions options, Problems problems) {
  append(problems, trainer::choose_first_checkpoint(options));
  const trainer::Evaluated evaluated = trainer::choose_evaluated(options);
  append(problems, evaluated.problems);
  trainer::Inputs inputs = trainer::read_inputs(options);
  append(problems, inputs.problems);
  if (problems.empty()) append(problems, trainer::encode_text(options, inputs));
  if (inputs.corpus.training) {
    const std::string problem = trainer::fit_vocabulary(options, inputs.corpus);
    if (!problem.empty()) problems.push_back(problem);
  }
  if (!trainer::is_started_as_rank()) append(problems, trainer::mesh_problems(options));
  append(problems, trainer::stage_problems(options));
  if (problems.empty() && !inputs.corpus.validation) {
    problems.emplace_back(
        "there is nothing to evaluate on: the data is too short to hold anything back. Name some with --validation.");
  }
  if (!problems.empty() && !trainer::is_started_as_rank()) return refuse(problems, options);
  return trainer::evaluate_command(options, inputs.corpus, evaluated.checkpoint, problems);
}

int run_prepare(const trainer::PrepareOptions& options, Problems problems) {
  const trainer::Preparation prepare = trainer::preparation_of(options);
  if (problems.empty()) append(problems, trainer::prepare_problems(prepare));
  if (!problems.empty()) return refuse(problems, options, Command::Prepare);
  trainer::run_prepare(prepare);
  return 0;
}

int run_sample(const trainer::CommandLine& line) {
  const trainer::SampleInputs inputs = trainer::read_sample_inputs(line);
  Problems problems = line.problems;
  append(problems, inputs.problems);
  if (!problems.empty()) return refuse(problems, line.options, Command::Sample);
  return trainer::sample_command(inputs, line.options.sample());
}

int report(const trainer::CommandLine& line) {
  Problems problems = line.problems;
  append(problems, trainer::report_problems(line.options));
  return problems.empty() ? trainer::run_report(line.options) : refuse(problems, line.options, line.command);
}

int show(const trainer::CommandLine& line, std::string (*text)(const AllOptions& options)) {
  if (!line.problems.empty()) return refuse(line.problems, line.options, line.command);
  trainer::print(text(line.options));
  return 0;
}

int run(const trainer::CommandLine& line) {
  switch (line.command) {
    case Command::Prepare:
      return run_prepare(line.options.prepare(), line.problems);
    case Command::Sample:
      return run_sample(line);
    case Command::Report:
      return report(line);
    case Command::Doctor:
      return line.problems.empty() ? trainer::run_doctor() : refuse(line.problems, line.options, line.command);
    case Command::Models:
      return show(line, [](const AllOptions&) { return trainer::model_list(); });
    case Command::Completion:
      return show(line, [](const AllOptions& options) {
        return trainer::completion_script(options.shell, trainer::train_program());
      });
    case Command::Man:
      return show(line, [](const AllOptions&) { return trainer::man_page(trainer::train_program()); });
    case Command::Train:
      break;
  }
  return line.options.eval_only ? run_evaluation(line.options, line.problems) : run_train(line);
}

// A training's results are in the run's folder.
trainer::Printed printed_by(const trainer::CommandLine& line) {
  const RunOptions& options = line.options;
  const bool trains = line.command == Command::Train && !options.eval_only && !options.dry_run && line.answer.empty();
  return trains ? trainer::Printed::Progress : trainer::Printed::Results;
}

int answer(const trainer::CommandLine& line) {
  if (line.answer.empty()) return run(line);
  trainer::print(line.answer);
  return 0;
}

void start_train() {
  trainer::expect_notice();
  trainer::start_program("fsdp-train");
}
AT_PROGRAM_START(start_train);

}  // namespace

int main(int count, char** arguments) try {
  if (trainer::computes(count > 1 ? arguments[1] : "")) trainer::wait_passively(arguments);
  const int width = trainer::standard_output().interactive ? std::clamp(trainer::terminal_width(), 60, 120) : 80;
  const trainer::CommandLine line = trainer::parse_command_line({arguments + 1, arguments + count}, width);
  return trainer::end_output("fsdp-train", printed_by(line), answer(line));
} catch (const std::exception& error) {
  trainer::print_error(fmt::format("fsdp-train: {}\n", error.what()));
  return 1;
}
