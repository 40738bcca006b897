#include "training/checkpoint_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "console/units.h"

namespace trainer {

namespace {

// 16384 for "16,384"; 0 if it is no number.
int64_t ungrouped(std::string text) {
  std::erase(text, ',');
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// How many micro-batches make a step of as many tokens as before: a run that goes on with other ranks keeps its data.
std::string advice_on_step(const RunOptions& options, const RunSettings& saved) {
  const auto found = saved.find(kTokensOfStep);
  const int64_t before = found == saved.end() ? 0 : ungrouped(found->second);
  const int64_t of_micro_batch = options.tokens_per_step() / options.micro_batches;
  if (before <= 0 || before == options.tokens_per_step()) return "";
  if (before % of_micro_batch == 0) {
    return fmt::format("\n    With --micro-batches {} on {} a step has as many tokens as before.",
                       before / of_micro_batch, counted(options.ranks, "rank"));
  }
  return fmt::format("\n    No --micro-batches makes a step of {} tokens on {} with --batch {}: change these.",
                     grouped(before), counted(options.ranks, "rank"), options.batch);
}

// Earlier versions held nothing back of a text without the end of a line near its own.
std::string advice_on_validation(const RunSettings& saved, const RunSettings& now) {
  const auto found = saved.find(kValidationData);
  const bool had_none = found != saved.end() && found->second == kNoData;
  if (!had_none || now.at(kValidationData) == kNoData) return "";
  return "\n    Nothing was held back for validation before: --validation-fraction 0 holds nothing back.";
}

}  // namespace

ComparedSettings compare_settings(const Training& training, const Notes& notes, const std::filesystem::path& checkpoint,
                                  Settings may) {
  const auto note = notes.find(kSettings);
  if (note == notes.end()) return {};
  const RunSettings saved = settings_from_note(note->second);
  SettingsDifference differs = difference(saved, training.settings);
  if (may == Settings::Kept && !differs.kept.empty()) {
    throw OtherRun(
        training.world,
        fmt::format("checkpoint '{}' is of another run. Give the values from before, or begin anew with another --run."
                    "{}{}\n    To go on from it all the same: --checkpoint {} --run OTHER{}",
                    checkpoint.string(), advice_on_step(training.options, saved),
                    advice_on_validation(saved, training.settings), checkpoint.string(), in_rows(differs)));
  }
  return {.differs = std::move(differs), .files = difference_of_files(saved, training.settings)};
}

void check_optimizer_state(const Training& training, const Notes& notes, const std::filesystem::path& checkpoint,
                           Settings may) {
  const auto note = notes.find(kSettings);
  if (note == notes.end()) return;
  const RunSettings saved = settings_from_note(note->second);
  const auto before = saved.find("--optimizer-state");
  const std::string found = before == saved.end() ? "fp32" : before->second;
  const std::string& given = training.options.optimizer_state;
  if (found == given) return;
  throw OtherRun(training.world,
                 fmt::format("checkpoint '{}' keeps AdamW's moments in {}, and --optimizer-state is {}. "
                             "Go on with --optimizer-state {}{}.",
                             checkpoint.string(), found, given, found,
                             may == Settings::Free ? ", or convert them: --no-strict" : ""));
}

}  // namespace trainer
