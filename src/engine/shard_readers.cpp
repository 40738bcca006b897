#include "engine/shard_readers.h"

#include <algorithm>
#include <chrono>

namespace fsdp::engine {

void ShardReaders::Reading::end() {
  const std::lock_guard lock(shared_->mutex);
  is_over_ = true;
  shared_->ended.notify_all();
}

double ShardReaders::Reading::seconds_waited_for() const {
  const std::lock_guard lock(shared_->mutex);
  return seconds_waited_for_;
}

std::shared_ptr<ShardReaders::Reading> ShardReaders::begin() {
  auto reading = std::make_shared<Reading>(shared_);
  const std::lock_guard lock(shared_->mutex);
  readings_.push_back(reading);
  return reading;
}

bool ShardReaders::any() const {
  const std::lock_guard lock(shared_->mutex);
  return !readings_.empty();
}

void ShardReaders::wait() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(shared_->mutex);
  shared_->ended.wait(lock, [&] { return std::ranges::all_of(readings_, &Reading::is_over_); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const auto& reading : readings_) reading->seconds_waited_for_ += seconds;
  readings_.clear();
}

}  // namespace fsdp::engine
