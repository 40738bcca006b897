#include "deferred/replay.h"

#include <algorithm>
#include <utility>

#include "deferred/default_generator.h"
#include "deferred/needed_operators.h"
#include "deferred/page_memory.h"
#include "deferred/tensors_within.h"

namespace fsdp::deferred {

namespace {

StorageBytes allocated(const RecordedStorage& storage) {
  return {page_memory(storage.bytes, storage.device).storage()};
}

bool lies_as(const torch::Tensor& tensor, const TensorPlace& place) {
  return tensor.sizes() == place.sizes && tensor.strides() == place.strides && tensor.storage_offset() == place.offset;
}

// Numbers of the operators that use each storage last.
std::unordered_map<int, size_t> last_uses(const std::vector<RecordedOperator>& operators,
                                          const std::vector<size_t>& needed) {
  std::unordered_map<int, size_t> last;
  for (size_t number : needed) {
    for (int storage : operators[number].reads) last[storage] = number;
    for (int storage : operators[number].writes) last[storage] = number;
  }
  return last;
}

}  // namespace

StorageBytes Replay::bytes_of(int storage, size_t end, const std::optional<StorageBytes>& place) {
  const std::vector<size_t> needed = needed_operators(operators_, {storage}, end);
  const auto last = last_uses(operators_, needed);
  Bytes bytes;
  if (place) bytes[storage] = *place;
  for (size_t number : needed) {
    perform(number, bytes);
    std::erase_if(bytes, [&](const auto& one) { return one.first != storage && last.at(one.first) <= number; });
  }
  return bytes_in(storage, bytes);
}

torch::Tensor Replay::state_before(size_t next) {
  if (const auto known = states_.find(next); known != states_.end()) return known->second;
  for (; next_ < next; ++next_) {
    if (const auto seed = seeds_.find(next_); seed != seeds_.end()) state_ = seed->second;
    if (operators_[next_].draws) draw(next_);
  }
  const auto seed = seeds_.find(next);
  return seed != seeds_.end() ? seed->second : state_;
}

torch::Tensor Replay::tensor_at(const TensorPlace& place, const StorageBytes& bytes) const {
  const auto element = static_cast<int64_t>(c10::elementSize(place.dtype));
  return torch::empty({0}, torch::dtype(place.dtype).device(storages_[place.storage].device))
      .set_(bytes.memory, bytes.offset / element + place.offset, place.sizes, place.strides);
}

void Replay::perform(size_t number, Bytes& bytes) {
  const RecordedOperator& recorded = operators_[number];
  if (!recorded.draws) return call(recorded, bytes);
  const torch::Tensor before = state_before(number);
  states_[number] = before;
  set_generator_state(before);
  call(recorded, bytes);
  if (number == next_) state_ = generator_state(), ++next_;
}

void Replay::call(const RecordedOperator& recorded, Bytes& bytes) {
  torch::jit::Stack stack;
  auto place = recorded.taken.begin();
  for (const c10::IValue& argument : recorded.arguments) {
    stack.push_back(with_tensors(argument, [&](const torch::Tensor&) {
      const TensorPlace& taken = *place++;
      return taken.storage == kNoStorage ? taken.constant : tensor_at(taken, bytes_in(taken.storage, bytes));
    }));
  }
  recorded.operation.callBoxed(stack);
  place = recorded.given.begin();
  for (const c10::IValue& result : stack)
    for_each_tensor(result, [&](const torch::Tensor& tensor) { take_result(*place++, tensor, bytes); });
}

void Replay::take_result(const TensorPlace& place, const torch::Tensor& result, Bytes& bytes) {
  if (place.storage == kNoStorage) return;
  const auto known = bytes.find(place.storage);
  if (known == bytes.end() && lies_as(result, place)) {
    bytes[place.storage] = {result.storage()};
  } else {
    tensor_at(place, bytes_in(place.storage, bytes)).copy_(result);
  }
}

// Its numbers alone, with what they depend on.
void Replay::draw(size_t number) {
  const RecordedOperator& recorded = operators_[number];
  Bytes bytes;
  for (int storage : recorded.reads) bytes[storage] = bytes_of(storage, number);
  states_[number] = state_;
  set_generator_state(state_);
  call(recorded, bytes);
  state_ = generator_state();
}

const StorageBytes& Replay::bytes_in(int storage, Bytes& bytes) {
  const auto known = bytes.find(storage);
  return known != bytes.end() ? known->second : (bytes[storage] = allocated(storages_[storage]));
}

}  // namespace fsdp::deferred
