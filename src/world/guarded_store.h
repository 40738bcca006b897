// Protects a store for one job: c10d's TCP store has no authentication.
//
// The names of its entries are keyed hashes, so that others do not meet them by chance or guess, and each value carries
// a keyed tag of its name and bytes. A value that another program wrote, or moved from another name, is an Error.
// Values are not hidden, and an old value of a name is as good as a new one. Counters (`add`) have no tag: the server
// adds. As safe for several threads as the store below.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace fsdp::world {

class GuardedStore final : public c10d::Store {
 public:
  GuardedStore(c10::intrusive_ptr<c10d::Store> store, std::string secret)
      : store_(std::move(store)), secret_(std::move(secret)) {}

  c10::intrusive_ptr<c10d::Store> clone() override;

  using Store::compareSet;
  using Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;
  // `append` would have to tag what it does not know.
  bool hasExtendedApi() const override { return false; }

 private:
  std::string name_of(const std::string& key) const;
  std::vector<std::string> names_of(const std::vector<std::string>& keys) const;
  std::vector<uint8_t> sealed(const std::string& key, const std::vector<uint8_t>& value) const;
  std::vector<uint8_t> opened(const std::string& key, const std::vector<uint8_t>& bytes) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::string secret_;
};

}  // namespace fsdp::world
