#include "collectives/notice_board.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace fsdp::collectives {

namespace {

class StoreBoard final : public NoticeBoard {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void post(int rank, const std::string& notice) override {
    store_->set(key(rank), std::vector<uint8_t>(notice.begin(), notice.end()));
  }
  std::optional<std::string> read(int rank) override {
    if (!store_->check({key(rank)})) return std::nullopt;
    const std::vector<uint8_t> bytes = store_->get(key(rank));
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  static std::string key(int rank) { return "notice/" + std::to_string(rank); }

  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace

std::unique_ptr<NoticeBoard> make_store_board(c10::intrusive_ptr<c10d::Store> store) {
  return std::make_unique<StoreBoard>(std::move(store));
}

}  // namespace fsdp::collectives
