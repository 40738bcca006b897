#include "interpose/measured_blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fsdp::interpose {

namespace {

using Addresses = std::unordered_set<const void*>;

int64_t sum_of(const MeasuredBlocks::Storages& storages) {
  return std::accumulate(storages.begin(), storages.end(), int64_t{0});
}

// Adds each that is not `known`, once.
void add_storages(const StorageMarks& marks, Addresses known, MeasuredBlocks::Storages& storages) {
  for (const StorageMark& mark : marks) {
    if (mark.bytes() > 0 && known.insert(mark.address()).second) storages.push_back(mark.bytes());
  }
}

void keep_larger(double& most, double& other) { most = std::max(most, std::exchange(other, 0)); }

}  // namespace

MeasuredBlocks::MeasuredBlocks(size_t blocks, std::shared_ptr<ActivationCount> count)
    : count_(std::move(count)), blocks_(blocks), peaks_(blocks + 1) {}

// Inputs that are in the count are in its bytes, whatever the blocks keep. Those of a block that is called before any
// parameter of the model was used are not.
void MeasuredBlocks::begins(size_t block, const void* call, const StorageMarks& inputs) {
  const std::lock_guard lock(mutex_);
  note_peak();
  for (const StorageMark& input : inputs) {
    if (count_->is_kept(input.address())) inputs_.emplace(input.address(), input);
  }
  Measured& measured = blocks_[block];
  if (!measured.facts.place) measured.facts.place = places_++;
  measured.open.push_back({.call = call, .kept = {}});
  ++open_;
}

void MeasuredBlocks::ends(size_t block, const void* call, const CallFacts& facts) {
  const std::lock_guard lock(mutex_);
  Addresses known;
  for (const auto* marks : {&inputs_, &left_out_}) {
    for (const auto& [address, mark] : *marks) known.insert(address);
  }
  Measured& measured = blocks_[block];
  Kept kept;
  add_storages(facts.saved, known, kept.all);
  add_storages(facts.products, known, kept.products);
  for (const StorageMark& saved : facts.saved) known.insert(saved.address());
  add_storages(facts.products, known, kept.unsaved_products);
  const auto open = std::ranges::find(measured.open, call, &OpenCall::call);
  // A call that runs a backward itself may have run again before its end.
  const bool is_open = open != measured.open.end();
  if (is_open) open->kept = kept;
  for (const auto storages : {&Kept::all, &Kept::products, &Kept::unsaved_products}) {
    note_most(measured, storages, is_open ? nullptr : &kept);
  }
  measured.seconds += facts.seconds;
  measured.seconds_without_products += std::max(0.0, facts.seconds - facts.product_seconds);
}

// Several are open where the block is called more than once in a forward, or where micro-batches are in flight.
void MeasuredBlocks::note_most(Measured& measured, Storages Kept::*storages, const Kept* closed) {
  Storages now = closed ? closed->*storages : Storages();
  for (const OpenCall& call : measured.open)
    now.insert(now.end(), (call.kept.*storages).begin(), (call.kept.*storages).end());
  Storages& most = measured.facts.most.*storages;
  if (sum_of(now) > sum_of(most)) most = std::move(now);
}

void MeasuredBlocks::closes(size_t block, const void* call) {
  const std::lock_guard lock(mutex_);
  note_peak();
  std::erase_if(blocks_[block].open, [&](const OpenCall& one) { return one.call == call; });
  if (--open_ == 0) end_period();
}

void MeasuredBlocks::is_retained() {
  const std::lock_guard lock(mutex_);
  retained_ = true;
}

void MeasuredBlocks::leave_out(const torch::Tensor& tensor) {
  if (!tensor.has_storage()) return;
  const StorageMark mark(tensor);
  left_out_.emplace(mark.address(), mark);
}

void MeasuredBlocks::tell_moments(const std::vector<ActivationCount::Moment>& moments, std::vector<size_t>& open_at) {
  moments_ = &moments;
  open_at_ = &open_at;
}

void MeasuredBlocks::end_moments() {
  const std::lock_guard lock(mutex_);
  moments_ = nullptr;
}

size_t MeasuredBlocks::open_places() const {
  size_t places = 0;
  for (const Measured& measured : blocks_) {
    if (!measured.open.empty()) places = std::max(places, *measured.facts.place + 1);
  }
  return places;
}

void MeasuredBlocks::note_peak() {
  int64_t& peak = peaks_[open_places()];
  peak = std::max(peak, count_->take_peak());
  if (moments_ == nullptr) return;
  count_->add_moment();
  open_at_->resize(moments_->size(), open_places());
}

void MeasuredBlocks::end_period() {
  for (Measured& measured : blocks_) {
    keep_larger(measured.facts.seconds, measured.seconds);
    keep_larger(measured.facts.seconds_without_products, measured.seconds_without_products);
  }
  inputs_.clear();
}

MeasuredBlocks::Facts MeasuredBlocks::facts() {
  const std::lock_guard lock(mutex_);
  note_peak();
  Facts facts{.blocks = {}, .peaks = peaks_, .called = places_};
  for (const Measured& measured : blocks_) facts.blocks.push_back(measured.facts);
  if (retained_) facts.peaks[places_] = std::ranges::max(facts.peaks);
  return facts;
}

}  // namespace fsdp::interpose
