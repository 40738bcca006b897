#include "stages/stage_schedule.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::stages {
namespace {

constexpr std::string_view kOverlap = "OVERLAP_F_B";

// Where a cell stands in the text, from 0.
struct CellPlace {
  size_t row = 0, column = 0;
};

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::vector<std::string_view> divided(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(without_blanks(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

StageAction read_action(std::string_view text, CellPlace place) {
  const std::optional<StageAction> action = action_of(text);
  FSDP_CHECK(action,
             "schedule of a pipeline, row {}, column {}: found {:?}, expected stage, action and micro-batch, such as "
             "2F0. Actions are F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, and without a micro-batch UNSHARD, RESHARD, "
             "REDUCE_GRAD. Numbers are below {}.",
             place.row + 1, place.column + 1, text.substr(0, 60), kMostNumber);
  return *action;
}

// "(0F7;7B3)OVERLAP_F_B".
void read_overlap(std::string_view cell, CellPlace place, std::vector<StageAction>& actions) {
  const size_t close = cell.find(')');
  const bool complete = close != std::string_view::npos && cell.substr(close + 1) == kOverlap;
  const std::vector<std::string_view> parts = divided(cell.substr(1, complete ? close - 1 : 0), ';');
  FSDP_CHECK(complete && parts.size() > 1,
             "schedule of a pipeline, row {}, column {}: found {:?}, expected passes that run at the same time, such "
             "as (0F7;7B3)OVERLAP_F_B",
             place.row + 1, place.column + 1, cell.substr(0, 60));
  for (std::string_view part : parts) {
    actions.push_back(read_action(part, place));
    FSDP_CHECK(is_pass(actions.back().kind),
               "schedule of a pipeline, row {}, column {}: found {:?} among passes that run at the same time, expected "
               "F, B, I or W",
               place.row + 1, place.column + 1, part.substr(0, 60));
    actions.back().with_next = true;
  }
  actions.back().with_next = false;
}

void note_stage(StageSchedule& schedule, int rank, const StageAction& action) {
  if (action.kind == StageAction::Kind::Idle) return;
  if (action.stage >= schedule.stages()) schedule.rank_of_stage.resize(action.stage + 1, -1);
  int& holder = schedule.rank_of_stage[action.stage];
  if (holder < 0) holder = rank;
  schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
}

}  // namespace

std::string to_csv(const StageSchedule& schedule) {
  std::string text;
  for (const std::vector<StageAction>& actions : schedule.ranks) {
    bool together = false;  // with the action before
    for (size_t i = 0; i < actions.size(); ++i) {
      const bool goes_on = actions[i].with_next && i + 1 < actions.size();
      if (i > 0) text += together ? ";" : ",";
      if (goes_on && !together) text += "(";
      text += to_string(actions[i]);
      if (together && !goes_on) text.append(")").append(kOverlap);
      together = goes_on;
    }
    text += "\n";
  }
  return text;
}

StageSchedule read_csv(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  FSDP_CHECK(!text.empty(), "schedule of a pipeline: found no text, expected a line of actions for each rank");
  StageSchedule schedule;
  for (std::string_view line : divided(text, '\n')) {
    const size_t row = schedule.ranks.size();
    std::vector<StageAction>& actions = schedule.ranks.emplace_back();
    if (line.empty()) continue;
    const std::vector<std::string_view> cells = divided(line, ',');
    for (size_t column = 0; column < cells.size(); ++column) {
      if (cells[column].starts_with('(')) {
        read_overlap(cells[column], {row, column}, actions);
      } else {
        actions.push_back(read_action(cells[column], {row, column}));
      }
    }
    for (const StageAction& action : actions) note_stage(schedule, static_cast<int>(row), action);
  }
  return schedule;
}

std::span<const StageAction> together(const std::vector<StageAction>& actions, size_t position) {
  size_t last = position;
  while (actions[last].with_next && last + 1 < actions.size()) ++last;
  return std::span(actions).subspan(position, last + 1 - position);
}

StageSchedule without_idle(StageSchedule schedule) {
  for (std::vector<StageAction>& actions : schedule.ranks)
    std::erase_if(actions, [](const StageAction& action) { return action.kind == StageAction::Kind::Idle; });
  return schedule;
}

bool has_messages(const StageSchedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const std::vector<StageAction>& actions) {
    return std::ranges::any_of(actions, [](const StageAction& action) { return is_message(action.kind); });
  });
}

}  // namespace fsdp::stages
