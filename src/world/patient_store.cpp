#include "world/patient_store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "base/patience.h"

namespace fsdp::world {

namespace {

using std::chrono::milliseconds;

// Between two questions: short at first, as what is waited for usually is about to come.
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{20};

}  // namespace

c10::intrusive_ptr<c10d::Store> PatientStore::clone() {
  return c10::make_intrusive<PatientStore>(prefix_, store_->clone());
}

std::vector<uint8_t> PatientStore::get(const std::string& key) {
  wait({key});
  return PrefixStore::get(key);
}

std::vector<std::vector<uint8_t>> PatientStore::multiGet(const std::vector<std::string>& keys) {
  wait(keys);
  return PrefixStore::multiGet(keys);
}

void PatientStore::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void PatientStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  Patience patience(timeout);
  for (milliseconds pause = kFirstPause; !check(keys); pause = std::min(2 * pause, kLongestPause)) {
    if (patience.is_over()) {
      C10_THROW_ERROR(DistStoreError, fmt::format("the wait for '{}' timed out", fmt::join(keys, "', '")));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace fsdp::world
