#include "engine/model.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "engine/own_operators.h"
#include "engine/whole_unit.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

using schedule::Call;

Model::Model(ModelSpec spec) : whole_(std::move(spec.whole)), parts_(std::move(spec)) {}

std::shared_ptr<Model> Model::make(ModelSpec spec) {
  auto model = std::make_shared<Model>(std::move(spec));
  model->parts_.link->model = model;
  return model;
}

std::shared_ptr<Model> Model::of(const torch::Tensor& parameter) {
  const auto* storage = interpose::UnitStorage::of(parameter);
  return storage != nullptr ? std::static_pointer_cast<Model>(storage->link()->model.lock()) : nullptr;
}

int Model::unit_holding(const torch::Tensor& parameter) { return interpose::UnitStorage::of(parameter)->unit(); }

ShardedUnit& Model::unit_of(size_t parameter) const {
  const auto behind = std::upper_bound(units().begin(), units().end(), parameter,
                                       [](size_t index, const auto& unit) { return index < unit->first_piece; });
  return **std::prev(behind);
}

torch::Tensor Model::new_state(size_t parameter, int64_t numel, torch::ScalarType dtype) {
  const torch::Device device = parameters()[parameter].piece.device();
  torch::Tensor state = parts_.state_backing->zeros(numel, torch::dtype(dtype).device(device));
  unit_of(parameter).add_state(state);
  return state;
}

bool Model::trainable(size_t parameter) const {
  const ShardedUnit& unit = unit_of(parameter);
  return unit.parameters[parameter - unit.first_piece].tensor().requires_grad();
}

const AxisDivision* Model::division_of(size_t parameter, const DividingAxis& axis) const {
  const ShardedUnit& unit = unit_of(parameter);
  return axis.division_of(unit.parameters[parameter - unit.first_piece].tensor());
}

std::vector<torch::Tensor> Model::gather_over(OtherParts& parts, const torch::Tensor& tensor) {
  return parts_.recorder.waits(Activity::WaitParts, kNoUnit, [&] { return parts.all_gather(tensor); });
}

bool Model::is_frozen_part() const {
  if (!other_parts()) return false;
  for (size_t i = 0; i < parameters().size(); ++i) {
    if (trainable(i)) return false;
  }
  return true;
}

void Model::check(Call call, std::string_view what) {
  const std::lock_guard lock(parts_.mutex);
  parts_.check(call, what);
}

void Model::check_parameters(std::string_view what) const {
  const std::lock_guard lock(parts_.mutex);
  parts_.check_parameters(what);
}

void Model::publish_pieces() {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.publish_pieces();
}

void Model::begin_read(std::string_view what) {
  const std::lock_guard lock(parts_.mutex);
  parts_.check(Call::ReadState, what);
  parts_.check_parameters(what);
  parts_.driver.release_all();
}

std::shared_ptr<ShardReaders::Reading> Model::begin_reading() {
  const std::lock_guard lock(parts_.mutex);
  FSDP_INVARIANT(!parts_.driver.pieces_changed(), "the pieces may change without an announcement");
  return parts_.readers.begin();
}

void Model::give_state_out() {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.await_readers();
  parts_.performer.changes();
}

torch::Tensor Model::gather_whole(size_t unit) {
  const std::lock_guard lock(parts_.mutex);
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  return parts_.driver.guarded([&] { return gather_whole_fp32(*parts_.units.at(unit), *parts_.group); });
}

// Where one rank's step broke off, another's may have stepped nothing.
void Model::begin_load(Call call, std::string_view what, const std::vector<bool>& whole) {
  const std::lock_guard lock(parts_.mutex);
  parts_.check(call, what);
  if (call == Call::LoadCheckpoint) {
    parts_.driver.end_broken_step();
    parts_.check(Call::WriteState, what);
  }
  parts_.driver.begin_write();
  parts_.write_first_values(whole);
  parts_.driver.lose_values();
}

void Model::publish() {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.publish();
}

void Model::end_load(const std::vector<bool>& whole) {
  const std::lock_guard lock(parts_.mutex);
  for (size_t i = 0; i < parts_.lost_values.size(); ++i) {
    if (whole[i]) parts_.lost_values[i] = false;
  }
  if (std::ranges::none_of(parts_.lost_values, std::identity())) parts_.driver.have_values();
}

void Model::break_off_load(const std::vector<bool>& was_to_fill) {
  const std::lock_guard lock(parts_.mutex);
  parts_.lost_values.resize(was_to_fill.size());
  for (size_t i = 0; i < was_to_fill.size(); ++i) {
    if (was_to_fill[i]) parts_.lost_values[i] = true;
  }
}

std::vector<bool> Model::missing_values() const {
  const std::lock_guard lock(parts_.mutex);
  return parts_.first_values.missing(parts_.units);
}

void Model::initialise() {
  const std::lock_guard lock(parts_.mutex);
  if (!parts_.first_values.are_missing()) return;
  parts_.check(Call::WriteState, "initialise");
  parts_.driver.begin_write();
  parts_.write_first_values(std::vector<bool>(parts_.parameters.size(), false));
  parts_.driver.publish();
}

void Model::broadcast_buffers(int source) {
  FSDP_CHECK(source >= 0 && source < group().size(), "broadcast_buffers: found source {}, expected a rank below {}",
             source, group().size());
  const std::lock_guard lock(parts_.mutex);
  parts_.broadcast_buffers(source);
}

void Model::close_gradients(std::string_view what) {
  if (!is_frozen_part()) {
    const std::lock_guard lock(parts_.mutex);
    parts_.note_backward();
    parts_.driver.close_sum(what);
  }
  if (const auto& others = other_parts()) others->gradients_ended();
}

void Model::zero_grad() {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  parts_.driver.zero_grad();
}

void Model::set_gradient_divisor(double divisor) {
  const std::lock_guard lock(parts_.mutex);
  parts_.check(Call::ChangeSettings, "set_gradient_divisor");
  parts_.gradients.set_divisor(divisor);
}

std::optional<int64_t> Model::begin_micro_batch(int64_t number) {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  return parts_.driver.begin_micro_batch(number);
}

void Model::end_micro_batch(std::optional<int64_t> outer) noexcept {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.end_micro_batch(outer);
}

void Model::hold(std::span<const int> units) {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  if (parts_.full_scope == nullptr) parts_.driver.hold(units);
}

void Model::let_go(std::span<const int> units) {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  if (parts_.full_scope == nullptr) parts_.driver.let_go(units);
}

void Model::begin_no_sync() {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.begin_local();
}

bool Model::in_no_sync() const {
  const std::lock_guard lock(parts_.mutex);
  return parts_.driver.machine().in_no_sync();
}

void Model::end_no_sync() noexcept {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.end_local();
}

void Model::step(const std::shared_ptr<const UnitUpdate>& update) {
  if (other_parts()) close_gradients("a step");
  if (is_frozen_part()) return;
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  parts_.performer.set_update(update);
  parts_.driver.step(update.get());
  if (!parts_.common_values.is_due()) return;
  const OwnOperators own;
  const auto hashes =
      parts_.driver.guarded([&] { return parts_.common_values.exchange(parts_.units, parts_.buffers, *parts_.group); });
  parts_.common_values.check(hashes, parts_.units, parts_.buffers);
}

void Model::open_step_in_backward(std::weak_ptr<const UnitUpdate> update) {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  parts_.driver.open_early_step(update.lock().get());
  parts_.performer.set_early_update(std::move(update));
}

void Model::close_step_in_backward() noexcept {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.close_early_step();
}

void Model::forget_update(const std::shared_ptr<const UnitUpdate>& update) noexcept {
  const std::lock_guard lock(parts_.mutex);
  parts_.driver.forget(update.get());
}

bool Model::any_rank_has_batch(bool here) {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  return parts_.driver.any_rank_has_batch(here);
}

void Model::begin_trace(std::function<report::MemorySample()> memory) {
  const std::lock_guard lock(parts_.mutex);
  FSDP_CHECK(!parts_.recorder.traced(), "trace: the model is traced already. Write or destroy that trace first.");
  parts_.recorder.begin_trace(std::move(memory));
  for (int id = 0; id < static_cast<int>(parts_.units.size()); ++id) {
    if (parts_.driver.gathers_for_next(id)) parts_.recorder.begins(Activity::Gather, id);
  }
}

report::Recorded Model::end_trace() {
  const std::lock_guard lock(parts_.mutex);
  return parts_.recorder.end_trace();
}

void Model::backward_without_batch() {
  const std::lock_guard lock(parts_.mutex);
  parts_.note_backward();
  parts_.performer.event_began_at(parts_.recorder.touched());
  torch::NoGradGuard no_grad;
  parts_.driver.backward_without_batch();
}

}  // namespace fsdp::engine
