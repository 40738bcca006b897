#include "collectives/device/order_words.h"

#include <algorithm>
#include <utility>

namespace fsdp::collectives::device {

namespace {

constexpr size_t kBits = 20;
constexpr int kNoWord = 0;  // any other number is one more than a unit's

}  // namespace

OrderWords::OrderWords(Group& host)
    : host_(host),
      layout_(std::vector<int64_t>(kBits), host.size(), host.size()),
      gradient_layout_(layout_, std::vector<uint8_t>(kBits, 1)) {}

void OrderWords::open(int id) {
  slots_.emplace_back();
  slots_.back().unit = host_.open_unit({.id = id, .name = "order of reductions", .layout = layout_});
  slots_.back().bits.values = torch::empty({0});
}

void OrderWords::begin(Slot& slot, int number) {
  std::vector<uint8_t> bits;
  for (size_t i = 0; i < kBits; ++i) bits.push_back(number >> i & 1);
  slot.bits.held.assign(kBits, 0);
  const torch::Tensor nothing = host_.allocate(0).view(torch::kFloat32);
  slot.unit->begin_reduce({&gradient_layout_, nothing, std::move(bits), nothing}, slot.bits);
  slot.begun = true;
}

int OrderWords::finish(Slot& slot) {
  slot.unit->wait_reduce();
  slot.begun = false;
  int number = 0;
  for (size_t i = 0; i < kBits; ++i) number |= slot.bits.held[i] << i;
  return number;
}

// After a backward that threw there may be words of it.
void OrderWords::begin_anew() {
  if (next_ < slots_.size()) return;
  for (Slot& slot : slots_) {
    if (slot.begun) finish(slot);
  }
  next_ = 0;
}

void OrderWords::begin_rest() {
  for (size_t i = next_; i < slots_.size(); ++i) {
    if (!slots_[i].begun) begin(slots_[i], kNoWord);
  }
}

void OrderWords::say(int unit) {
  begin_anew();
  begin(slots_[next_++], unit + 1);
}

std::optional<int> OrderWords::hear() {
  begin_anew();
  begin_rest();
  Slot& slot = slots_[next_];
  if (slot.unit->wait_begun() != Begun::Yes) return std::nullopt;
  ++next_;
  return finish(slot) - 1;
}

int OrderWords::hear_last() {
  if (next_ == slots_.size()) return kNoWord - 1;
  begin_rest();
  return finish(slots_[next_++]) - 1;
}

void OrderWords::end() {
  const bool any = std::ranges::any_of(slots_, &Slot::begun);
  if (any) begin_rest();
  next_ = slots_.size();
  begin_anew();
}

}  // namespace fsdp::collectives::device
