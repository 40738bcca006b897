#include "run/resume_state.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <charconv>

#include "files/printable.h"

namespace trainer {

namespace {

template <typename Number>
struct Range {
  Number least, most;
  const char* expected;
};

// Counts have as many values as JSON has whole numbers.
constexpr Range<int64_t> kCount{0, int64_t{1} << 53, "a whole number from 0 to 2^53"};
constexpr Range<double> kScale{0, std::numeric_limits<float>::max(), "a number from 0 to the greatest of fp32"};
constexpr Range<double> kLoss{0, std::numeric_limits<double>::infinity(), "a number from 0 to infinity"};

template <typename Number>
void read(const std::map<std::string, std::string>& notes, const std::string& name, const Range<Number>& range,
          Number& target) {
  const auto note = notes.find(name);
  if (note == notes.end()) return;
  const std::string& text = note->second;
  Number found{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  const bool is_number = error == std::errc() && rest == text.data() + text.size();
  if (!is_number || !(found >= range.least && found <= range.most)) {
    throw fsdp::Error(fmt::format("the checkpoint's note '{}' is damaged: found '{}', expected {}.", name,
                                  fsdp::files::printable(text.substr(0, 100)), range.expected));
  }
  target = found;
}

}  // namespace

std::map<std::string, std::string> to_notes(const ResumeState& state) {
  // The shortest text that reads back as the same number.
  return {{"loss_scale", fmt::format("{}", state.loss_scale)},
          {"finite_steps", fmt::format("{}", state.finite_steps)},
          {"best_validation_loss", fmt::format("{}", state.best_validation_loss)},
          {"best_step", fmt::format("{}", state.best_step)},
          {"validations_since_best", fmt::format("{}", state.validations_since_best)}};
}

ResumeState from_notes(const std::map<std::string, std::string>& notes) {
  ResumeState state;
  read(notes, "loss_scale", kScale, state.loss_scale);
  read(notes, "finite_steps", kCount, state.finite_steps);
  read(notes, "best_validation_loss", kLoss, state.best_validation_loss);
  read(notes, "best_step", kCount, state.best_step);
  read(notes, "validations_since_best", kCount, state.validations_since_best);
  return state;
}

}  // namespace trainer
