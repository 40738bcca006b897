// Runs the recorded operators that a storage's bytes depend on, in the order of the record and with the random numbers
// of an ordinary construction.
//
// Any storage can be made at any time and in any order. The generator's state before each drawing operator is found
// once, by a pass through the record as far as needed. On the way, other operators draw their numbers and drop them. So
// what lies in memory is one storage, with what its operators need beside it. Asked for in the order of the
// construction, each number is drawn once.
#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "deferred/recorded_operator.h"

namespace fsdp::deferred {

// The bytes of a storage of the recording, somewhere within one that is real.
struct StorageBytes {
  c10::Storage memory;
  int64_t offset = 0;  // in bytes
};

class Replay {
 public:
  // Both outlive it, and may grow.
  Replay(const std::vector<RecordedOperator>& operators, const std::vector<RecordedStorage>& storages)
      : operators_(operators), storages_(storages) {}

  // The generator has this state before operator number `next`, whatever was drawn before.
  void seed(size_t next, torch::Tensor state) { seeds_[next] = std::move(state); }

  // The bytes that the storage has before operator number `end`; at `place` where they can be made there.
  StorageBytes bytes_of(int storage, size_t end, const std::optional<StorageBytes>& place = std::nullopt);
  // The generator's state before operator number `next`, which has not been asked for anything behind it yet.
  torch::Tensor state_before(size_t next);
  // A tensor that lies so in the bytes of its storage.
  torch::Tensor tensor_at(const TensorPlace& place, const StorageBytes& bytes) const;

 private:
  using Bytes = std::unordered_map<int, StorageBytes>;

  void perform(size_t number, Bytes& bytes);
  void call(const RecordedOperator& recorded, Bytes& bytes);
  void take_result(const TensorPlace& place, const torch::Tensor& result, Bytes& bytes);
  void draw(size_t number);
  const StorageBytes& bytes_in(int storage, Bytes& bytes);

  const std::vector<RecordedOperator>& operators_;
  const std::vector<RecordedStorage>& storages_;
  std::map<size_t, torch::Tensor> seeds_;             // by the operator that comes next
  std::unordered_map<size_t, torch::Tensor> states_;  // before each operator that draws, as far as is known
  size_t next_ = 0;                                   // all operators before this one have drawn
  torch::Tensor state_;                               // the generator's, then
};

}  // namespace fsdp::deferred
