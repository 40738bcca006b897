// The words of fsdp-plan MODEL, taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fsdp-plan/model_plan.h"
#include "planning/plan_target.h"

namespace planner {

struct PlanArguments {
  std::string model;
  trainer::RunOptions options = {};  // resolved
  trainer::PlanTarget target = {};
  bool all_strategies = false;
  bool as_json = false;
  std::string page_file = {};                 // of --html; empty: no page
  std::string command = {};                   // the command line, for a shell
  std::vector<int64_t> ranks_to_choose = {};  // numbers of ranks, of a search with several; empty: that of the options
  std::vector<std::string> problems = {};     // every one, a sentence each
};

// The words of a command line, for a shell.
std::string command_line(std::vector<std::string> words, const std::string& command);

// `command` is the word before them, which fsdp-plan MODEL has none of.
PlanArguments read_plan(const std::vector<std::string>& words, const std::string& command = "");

// The text; with --html, the page too.
template <typename MakePage>
ModelPlan answered(const PlanArguments& arguments, std::string text, MakePage make_page) {
  if (arguments.page_file.empty()) return {.text = std::move(text)};
  return {.text = std::move(text), .page_file = arguments.page_file, .page = make_page()};
}

// Adds a problem if the model's parameters alone are known: the command asks for its shape.
void require_shape(const char* command, PlanArguments& arguments);

}  // namespace planner
