// Changes of the shards: from the last read of the old values to the publication of the new ones.
#include "engine/model.h"

namespace fsdp::engine {

void Model::begin_write() {
  check_settled("a write to the shards");
  std::lock_guard lock(mutex_);
  release_all();
  recorder_.computes_nothing();
  const auto wait = [&] {
    guarded([&] {
      for (auto& unit : units_) unit->collectives->begin_write(collectives::Readers::Wait);
    });
  };
  recorder_.waits(Activity::WaitReaders, kNoUnit, wait);
  recorder_.computes(Activity::Update);
}

void Model::release_all() {
  note_mode();
  if (written_) publish_all();
  guarded([&] { perform(schedule_->shards_change()); });
}

void Model::publish(Unit& unit) {
  torch::Tensor published = unit.collectives->shard();
  if (!published.is_alias_of(unit.shard)) published.copy_(unit.shard);
  unit.collectives->publish();
}

void Model::publish() {
  std::lock_guard lock(mutex_);
  publish_all();
}

void Model::publish_written() {
  std::lock_guard lock(mutex_);
  if (written_) publish_all();
}

void Model::publish_all() {
  torch::NoGradGuard no_grad;
  written_ = false;
  recorder_.computes(Activity::Publish);
  guarded([&] {
    for (auto& unit : units_) publish(*unit);
  });
  recorder_.computes_nothing();
  link_->changed = true;
}

void Model::check_parameters(std::string_view what) const {
  std::lock_guard lock(mutex_);
  for (const auto& unit : units_) {
    for (const auto& parameter : unit->parameters) parameter.check_attached(what);
  }
}

}  // namespace fsdp::engine
