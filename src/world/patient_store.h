// A part of a store in which waits count only time in which the waiter itself ran.
//
// A store's own waits go by the clock, so they are not used: a wait asks again and again. As thread-safe as the store.
#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace fsdp::world {

class PatientStore final : public c10d::PrefixStore {
 public:
  // The part under `prefix` in `store`.
  using c10d::PrefixStore::PrefixStore;

  c10::intrusive_ptr<c10d::Store> clone() override;
  std::vector<uint8_t> get(const std::string& key) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
};

}  // namespace fsdp::world
