#include "engine/parameter_writes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rank_names.h"
#include "engine/piece_operators.h"
#include "engine/value_hash.h"
#include "engine/whole_unit.h"
#include "interpose/piece_storage.h"

namespace fsdp::engine {

namespace {

bool has_same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::equal(a.view(torch::kByte), b.view(torch::kByte));
}

}  // namespace

void ParameterWrites::check_use(std::span<const int> units, std::optional<int> written,
                                std::string_view operation) const {
  if (written) {
    FSDP_CHECK_UNIT(!changes_form(operation), units_[*written]->name,
                    "{} gives a sharded parameter other memory or another shape, which the shards would not follow. "
                    "Write values: parameter.copy_(values), the same on every rank.",
                    operation);
  }
  for (int unit : units) {
    const bool is_copied = std::ranges::any_of(copies_, [unit](const Copy& copy) { return copy.unit == unit; });
    FSDP_CHECK_UNIT(!is_copied && !(written && driver_.schedule().pinned(unit)), units_[unit]->name,
                    "{} uses the unit while another thread's operator does, and one of the two writes it. Write a "
                    "parameter when no other thread runs the module.",
                    operation);
  }
}

void ParameterWrites::begin(std::span<const int> units) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (int id : units) {
    const torch::Tensor full = units_[id]->full();
    copies_.push_back({.unit = id, .before = full, .values = full.clone()});
    for (const auto& parameter : units_[id]->parameters) copies_.back().versions.push_back(parameter.version());
    units_[id]->bind(copies_.back().values.mutable_data_ptr());
  }
}

void ParameterWrites::finish(std::string_view operation, schedule::Mode mode) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  const std::vector<Copy> copies = copies_;
  bind_units();
  const bool changed =
      !std::ranges::all_of(copies, [](const Copy& copy) { return has_same_bits(copy.before, copy.values); });
  const std::string& unit = units_[copies[0].unit]->name;
  FSDP_CHECK_UNIT(
      !changed || mode != schedule::Mode::Backward, unit,
      "{} changes a sharded parameter in a backward. A forward that the backward runs again may only repeat "
      "a write, as a mask does. Compute with a changed copy: conv2d(x, weight * factor).",
      operation);
  FSDP_CHECK_UNIT(
      !changed || !driver_.followed(), unit,
      "{} changes a sharded parameter in a step in which some ranks have no batch: they run no forward, and "
      "would miss the write. Compute with a changed copy: conv2d(x, weight * mask).",
      operation);
  if (mode == schedule::Mode::Backward) return restore_versions(copies);
  if (driver_.followed() || !agree(copies, changed, operation)) return;
  for (const Copy& copy : copies) {
    ShardedUnit& written = *units_[copy.unit];
    driver_.change_full(copy.unit, [&] { write_changes(written, copy.values, group_.rank()); });
  }
}

// Autograd would take the write for a change of the parameters that it has saved.
void ParameterWrites::restore_versions(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    auto& parameters = units_[copy.unit]->parameters;
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_version(copy.versions[i]);
  }
}

void ParameterWrites::bind_units() noexcept {
  for (const Copy& copy : copies_) units_[copy.unit]->bind(copy.before.mutable_data_ptr());
  copies_.clear();
}

bool ParameterWrites::agree(const std::vector<Copy>& copies, bool changed, std::string_view operation) {
  if (group_.size() == 1) return changed;
  uint64_t hash = 0;
  for (const Copy& copy : copies) hash = hash * 31 + static_cast<uint64_t>(hash_of_values(copy.values));
  const schedule::Round round = driver_.enter_round({.activity = schedule::RankActivity::Writes,
                                                     .unit = copies[0].unit,
                                                     .operation = std::string(operation),
                                                     .counts = driver_.schedule().counts_so_far(),
                                                     .written = static_cast<int64_t>(hash),
                                                     .changed = changed});
  if (!round.wrote_alike) refuse_differing(copies, operation);
  return round.changed;
}

// Every rank comes here.
void ParameterWrites::refuse_differing(const std::vector<Copy>& copies, std::string_view operation) {
  std::vector<int64_t> hashes;
  std::vector<std::string_view> names;
  for (const Copy& copy : copies) {
    const ShardedUnit& unit = *units_[copy.unit];
    for (size_t i = 0; i < unit.parameters.size(); ++i) {
      hashes.push_back(hash_of_values(unit.view(copy.values, i)));
      names.push_back(unit.parameters[i].name());
    }
  }
  const auto all =
      driver_.guarded([&] { return group_.all_gather(torch::tensor(hashes), "compares what operators wrote"); });
  const int64_t* first = all[0].const_data_ptr<int64_t>();
  for (int rank = 0; rank < group_.size(); ++rank) {
    const int64_t* theirs = all[rank].const_data_ptr<int64_t>();
    for (size_t i = 0; i < names.size(); ++i) {
      FSDP_CHECK_UNIT(theirs[i] == first[i], units_[copies[0].unit]->name,
                      "{} writes the sharded parameter {}, with other values on {} than on {}. Write the same "
                      "values on every rank, as a mask does. If forward initialises itself from its first batch, run "
                      "one forward before fsdp::shard.",
                      operation, names[i], text_of_rank(group_.name_of(rank)), text_of_rank(group_.name_of(0)));
    }
  }
  throw_error(message_prefix() + "ranks write different sharded parameters. Write the same on every rank.");
}

}  // namespace fsdp::engine
