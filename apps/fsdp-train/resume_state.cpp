#include "resume_state.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <charconv>

namespace trainer {

namespace {

template <typename Number>
void read(const std::map<std::string, std::string>& notes, const std::string& name, Number& target) {
  const auto note = notes.find(name);
  if (note == notes.end()) return;
  const std::string& text = note->second;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), target);
  if (error != std::errc() || rest != text.data() + text.size()) {
    throw fsdp::Error(fmt::format("the checkpoint's note '{}' is damaged: found '{}', expected a number.", name, text));
  }
}

}  // namespace

std::map<std::string, std::string> to_notes(const ResumeState& state) {
  // The shortest text that reads back as the same number.
  return {{"loss_scale", fmt::format("{}", state.loss_scale)},
          {"finite_steps", fmt::format("{}", state.finite_steps)},
          {"best_validation_loss", fmt::format("{}", state.best_validation_loss)},
          {"validations_since_best", fmt::format("{}", state.validations_since_best)}};
}

ResumeState from_notes(const std::map<std::string, std::string>& notes) {
  ResumeState state;
  read(notes, "loss_scale", state.loss_scale);
  read(notes, "finite_steps", state.finite_steps);
  read(notes, "best_validation_loss", state.best_validation_loss);
  read(notes, "validations_since_best", state.validations_since_best);
  return state;
}

}  // namespace trainer
