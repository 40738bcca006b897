#include "schedule/shard_changes.h"

namespace fsdp::schedule {

void ShardChanges::release_all() {
  publish_pieces();
  executor_.perform(schedule_.shards_change());
}

void ShardChanges::begin_write() {
  release_all();
  performer_.await_readers();
  executor_.guarded([&] { performer_.begin_all_writes(); });
}

void ShardChanges::publish() {
  pieces_changed_ = false;
  executor_.guarded([&] { performer_.publish_all(); });
  schedule_.shards_written();
  changed_ = true;
}

void ShardChanges::change_full(UnitId unit, const std::function<void()>& change) {
  performer_.await_readers();
  executor_.change_full(unit, change);
}

void ShardChanges::pieces_change() {
  begin_write();
  pieces_changed_ = true;
  schedule_.shards_written();
  changed_ = true;
}

}  // namespace fsdp::schedule
