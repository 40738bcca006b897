#include "engine/shard_writer.h"

namespace fsdp::engine {

void ShardWriter::release_all() {
  publish_pieces();
  executor_.perform(schedule_.shards_change());
}

void ShardWriter::wait_for_readers() {
  if (!readers_.any()) return;
  recorder_.computes_nothing();
  recorder_.waits(Activity::WaitReaders, kNoUnit, [&] { readers_.wait(); });
}

void ShardWriter::begin_write() {
  release_all();
  wait_for_readers();
  recorder_.computes_nothing();
  executor_.guarded([&] {
    recorder_.waits(Activity::WaitReaders, kNoUnit, [&] {
      for (auto& unit : units_) unit->collectives->begin_write(collectives::Readers::Wait);
    });
  });
  changes();
  recorder_.computes(Activity::Update);
}

void ShardWriter::publish() {
  torch::NoGradGuard no_grad;
  pieces_changed_ = false;
  recorder_.computes(Activity::Publish);
  executor_.guarded([&] {
    for (auto& unit : units_) unit->publish();
  });
  recorder_.computes_nothing();
  link_->changed = true;
}

void ShardWriter::change_full(int unit, const std::function<void()>& change) {
  wait_for_readers();
  executor_.gather_again(unit, [&] {
    changes();
    change();
    units_[unit]->publish();
  });
}

void ShardWriter::pieces_change() {
  begin_write();
  pieces_changed_ = true;
  link_->changed = true;
}

}  // namespace fsdp::engine
