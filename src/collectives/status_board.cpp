#include "collectives/status_board.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace fsdp::collectives {

namespace {

class StoreBoard final : public StatusBoard {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void post(int rank, const std::string& status) override {
    store_->set(key(rank), std::vector<uint8_t>(status.begin(), status.end()));
  }
  std::optional<std::string> read(int rank) override {
    if (!store_->check({key(rank)})) return std::nullopt;
    const std::vector<uint8_t> bytes = store_->get(key(rank));
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  static std::string key(int rank) { return "status/" + std::to_string(rank); }

  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace

std::unique_ptr<StatusBoard> make_store_board(c10::intrusive_ptr<c10d::Store> store) {
  return std::make_unique<StoreBoard>(std::move(store));
}

}  // namespace fsdp::collectives
