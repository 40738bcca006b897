#include "world/guarded_store.h"

#include <string_view>

#include "base/error.h"
#include "world/keyed_hash.h"

namespace fsdp::world {

namespace {

std::string_view view_of(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string tag_of(const std::string& secret, const std::string& key, std::string_view value) {
  return keyed_hash(secret, "value of " + key, value);
}

}  // namespace

std::string GuardedStore::name_of(const std::string& key) const {
  return "fsdp/" + in_hexadecimal(keyed_hash(secret_, "name", key));
}

std::vector<std::string> GuardedStore::names_of(const std::vector<std::string>& keys) const {
  std::vector<std::string> names;
  for (const std::string& key : keys) names.push_back(name_of(key));
  return names;
}

std::vector<uint8_t> GuardedStore::sealed(const std::string& key, const std::vector<uint8_t>& value) const {
  const std::string tag = tag_of(secret_, key, view_of(value));
  std::vector<uint8_t> bytes(tag.begin(), tag.end());
  bytes.insert(bytes.end(), value.begin(), value.end());
  return bytes;
}

std::vector<uint8_t> GuardedStore::opened(const std::string& key, const std::vector<uint8_t>& bytes) const {
  const std::string_view all = view_of(bytes);
  const std::string_view tag = all.substr(0, std::min(kHashBytes, all.size())), value = all.substr(tag.size());
  FSDP_CHECK(are_equal(tag, tag_of(secret_, key, value)),
             "the job's store has a value for '{}' that no rank of this job wrote ({} bytes): another program reaches "
             "the store. Set MASTER_PORT to a port of this job's own, MASTER_ADDR to an address that others cannot "
             "reach, and FSDP_JOB_SECRET to a secret text.",
             key, bytes.size());
  return {bytes.begin() + static_cast<std::ptrdiff_t>(tag.size()), bytes.end()};
}

c10::intrusive_ptr<c10d::Store> GuardedStore::clone() {
  return c10::make_intrusive<GuardedStore>(store_->clone(), secret_);
}

void GuardedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  store_->set(name_of(key), sealed(key, value));
}

// An empty `expected` means that there is none yet.
std::vector<uint8_t> GuardedStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                              const std::vector<uint8_t>& desired) {
  const auto before = expected.empty() ? expected : sealed(key, expected);
  const auto now = store_->compareSet(name_of(key), before, sealed(key, desired));
  return now.empty() ? now : opened(key, now);
}

std::vector<uint8_t> GuardedStore::get(const std::string& key) { return opened(key, store_->get(name_of(key))); }

int64_t GuardedStore::add(const std::string& key, int64_t value) { return store_->add(name_of(key), value); }

bool GuardedStore::deleteKey(const std::string& key) { return store_->deleteKey(name_of(key)); }

bool GuardedStore::check(const std::vector<std::string>& keys) { return store_->check(names_of(keys)); }

int64_t GuardedStore::getNumKeys() { return store_->getNumKeys(); }

void GuardedStore::wait(const std::vector<std::string>& keys) { store_->wait(names_of(keys)); }

void GuardedStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  store_->wait(names_of(keys), timeout);
}

const std::chrono::milliseconds& GuardedStore::getTimeout() const noexcept { return store_->getTimeout(); }

void GuardedStore::setTimeout(const std::chrono::milliseconds& timeout) { store_->setTimeout(timeout); }

}  // namespace fsdp::world
