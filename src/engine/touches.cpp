// What operators that take parameters cause.
#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

void Model::operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) {
  std::lock_guard lock(mutex_);
  if (full_) return use_full(units, written, operation);
  if (written_) publish_all();
  const schedule::Mode mode = note_mode();
  const int64_t touched = recorder_.touched();
  FSDP_CHECK_UNIT(!written, units_[*written]->name,
                  "{} writes a sharded parameter, and the write would be lost. Write inside "
                  "sharded.full_parameters(), or let an optimizer over the shards do it. Where forward writes: if it "
                  "initialises itself from its first batch, run one forward before fsdp::shard; if it applies a mask, "
                  "keep the mask as a buffer and multiply in forward: conv2d(x, weight * mask).",
                  operation);
  if (mode == schedule::Mode::Forward) guarded([&] { buffers_.forward_begins(together()); });
  if (link_->changed) check_changed(units[0], mode);
  if (step_.open()) check_not_stepped(units, operation);
  const schedule::Actions actions = schedule_->operator_begins(units, mode);
  try {
    if (!actions.empty()) guarded([&] { perform(actions); });
    if (!failure_.empty()) throw Error(failure_);
    if (!step_.candidates().empty()) step_early(touched);
  } catch (...) {
    schedule_->operator_ends(units);
    throw;
  }
  for (int unit : units) units_[unit]->storage->allow_access();
  const bool backward = mode == schedule::Mode::Backward;
  recorder_.computes(backward ? Activity::Backward : Activity::Forward, units[0], touched);
}

void Model::operator_ends(std::span<const int> units) noexcept {
  std::lock_guard lock(mutex_);
  if (full_) return;
  schedule_->operator_ends(units);
  for (int unit : units) {
    if (!schedule_->pinned(unit)) units_[unit]->storage->forbid_access();
  }
}

// A view that was made before, and is used after, the versions of the parameters go up would pass for one that a write
// has put out of date, and autograd would make its graph anew, in another order.
void Model::parameter_viewed(int unit) {
  std::lock_guard lock(mutex_);
  if (full_) return;
  if (written_) publish_all();
  if (link_->changed) check_changed(unit, note_mode());
}

// `unit` is the first to be used or viewed since the shards were written.
void Model::check_changed(int unit, schedule::Mode mode) {
  FSDP_CHECK_UNIT(mode != schedule::Mode::Backward, units_[unit]->name,
                  "the parameters changed (optimizer step, load or full_parameters) between this backward and its "
                  "forward. Call backward before the step, or run the forward again.");
  // Now, and not when they changed, so that the check above speaks before autograd's own.
  for (auto& each : units_) {
    for (auto& parameter : each->parameters) parameter.mark_changed();
  }
  link_->changed = false;
}

schedule::Mode Model::note_mode() {
  using schedule::Mode;
  const bool inside = note_backward();
  if (step_.broken()) throw Error(step_.why_broken());
  if (inside) return Mode::Backward;
  return torch::GradMode::is_enabled() ? Mode::Forward : Mode::ForwardWithoutGradients;
}

// Whether this thread runs one.
bool Model::note_backward() {
  const auto note = backward_.note();
  if (note.abandoned) guarded([&] { abandon_backward(); });
  return note.inside;
}

}  // namespace fsdp::engine
