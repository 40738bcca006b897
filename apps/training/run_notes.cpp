#include "training/run_notes.h"

#include <functional>

#include "files/json.h"
#include "run/first_rank.h"

namespace trainer {

namespace {

Notes agreed(fsdp::World& world, const char* name, const std::function<Notes()>& notes) {
  const std::string text = from_first_rank(world, [&] { return fsdp::files::Json(notes()).dump(); });
  return fsdp::files::parse_json(text, name).get<Notes>();
}

}  // namespace

Notes notes_of(fsdp::World& world, const std::filesystem::path& checkpoint) {
  return agreed(world, "the checkpoint's notes", [&] { return fsdp::checkpoint_notes(checkpoint); });
}

Notes notes_of_first_rank(fsdp::World& world, const Notes& own) {
  return agreed(world, "the notes in memory", [&] { return own; });
}

Notes notes_of_run(const Training& training, ResumeState state) {
  if (training.options.scales_loss()) {
    state.loss_scale = training.scaler.state().scale;
    state.finite_steps = training.scaler.state().finite_steps;
  }
  return to_notes(state);
}

ResumeState state_of_run(Training& training, const Notes& notes) {
  const ResumeState state = from_notes(notes);
  if (training.options.scales_loss() && state.loss_scale > 0) {
    training.scaler.load_state({.scale = state.loss_scale, .finite_steps = state.finite_steps});
  }
  return state;
}

}  // namespace trainer
