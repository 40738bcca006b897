#include "engine/activation_budget.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

namespace fsdp::engine {

namespace {

using interpose::MeasuredBlocks;

// A block's facts in a message between ranks. Times are in nanoseconds.
enum Fact : size_t { kPlace, kProducts, kUnsavedProducts, kAll, kTime, kTimeBesideProducts, kFacts };
constexpr int64_t kNotCalled = -1;

// The facts of all blocks, then the peaks.
using FactMessage = std::vector<int64_t>;

int64_t bytes_of_storages(const MeasuredBlocks::Storages& storages) {
  return std::accumulate(storages.begin(), storages.end(), int64_t{0});
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

FactMessage message_of_facts(const MeasuredBlocks::Facts& facts) {
  FactMessage message;
  for (const MeasuredBlocks::Block& block : facts.blocks) {
    const int64_t place = block.place ? static_cast<int64_t>(*block.place) : kNotCalled;
    message.insert(message.end(), {place, bytes_of_storages(block.most.products),
                                   bytes_of_storages(block.most.unsaved_products), bytes_of_storages(block.most.all),
                                   nanoseconds(block.seconds), nanoseconds(block.seconds_without_products)});
  }
  message.insert(message.end(), facts.peaks.begin(), facts.peaks.end());
  return message;
}

// Ranks that called blocks in another order have other moments: then every block counts as open in all of them.
void join_peaks(std::span<int64_t> peaks, std::span<const int64_t> theirs, bool same_order) {
  for (size_t i = 0; i < peaks.size(); ++i) {
    const size_t moment = same_order ? i : peaks.size() - 1;
    peaks[moment] = std::max(peaks[moment], theirs[i]);
  }
}

// The largest bytes of any rank, the mean times, rank 0's order.
FactMessage joined(const std::vector<torch::Tensor>& messages, size_t blocks) {
  const auto words = [](const torch::Tensor& message) {
    return std::span(message.const_data_ptr<int64_t>(), static_cast<size_t>(message.numel()));
  };
  FactMessage all(words(messages[0]).begin(), words(messages[0]).end());
  for (size_t rank = 1; rank < messages.size(); ++rank) {
    const auto theirs = words(messages[rank]);
    bool same_order = true;
    for (size_t block = 0; block < blocks; ++block) {
      int64_t* facts = &all[block * kFacts];
      const int64_t* other = &theirs[block * kFacts];
      same_order = same_order && facts[kPlace] == other[kPlace];
      for (const Fact bytes : {kProducts, kUnsavedProducts, kAll}) facts[bytes] = std::max(facts[bytes], other[bytes]);
      for (const Fact time : {kTime, kTimeBesideProducts}) facts[time] += other[time];
    }
    join_peaks(std::span(all).subspan(blocks * kFacts), theirs.subspan(blocks * kFacts), same_order);
  }
  for (size_t block = 0; block < blocks; ++block) {
    for (const Fact time : {kTime, kTimeBesideProducts}) {
      all[block * kFacts + time] /= static_cast<int64_t>(messages.size());
    }
  }
  return all;
}

// Blocks that keep the same bytes whatever they choose are taken for equal, and have the middle one of their times: the
// first call of an operator in a process takes longer.
void equalise_times(std::vector<BudgetedBlock>& blocks) {
  using Bytes = std::vector<int64_t>;
  std::map<Bytes, std::vector<BudgetedBlock*>> groups;
  for (BudgetedBlock& block : blocks) {
    Bytes bytes;
    for (const BlockChoice& choice : block.choices) {
      bytes.insert(bytes.end(), {choice.kept_bytes, choice.backward_bytes});
    }
    groups[bytes].push_back(&block);
  }
  for (auto& [bytes, group] : groups) {
    for (size_t choice = 0; choice < group.front()->choices.size(); ++choice) {
      std::vector<double> seconds;
      for (const BudgetedBlock* block : group) seconds.push_back(block->choices[choice].seconds);
      std::ranges::sort(seconds);
      for (BudgetedBlock* block : group) block->choices[choice].seconds = seconds[seconds.size() / 2];
    }
  }
}

BudgetedBlock block_of(const std::string& name, const int64_t* facts) {
  const double seconds = static_cast<double>(facts[kTime]) * 1e-9;
  const double beside_products = static_cast<double>(facts[kTimeBesideProducts]) * 1e-9;
  return {.name = name,
          .choices = {{.keep = KeptResults::None, .seconds = seconds},
                      {.keep = KeptResults::Products,
                       .kept_bytes = facts[kProducts],
                       .backward_bytes = facts[kUnsavedProducts],
                       .seconds = std::min(seconds, beside_products)},
                      {.keep = KeptResults::All, .kept_bytes = facts[kAll]}}};
}

ActivationTimeline timeline_of(const FactMessage& all, const ActivationBudget::Blocks& blocks) {
  std::map<int64_t, size_t> by_place;
  for (size_t block = 0; block < blocks.size(); ++block) {
    const int64_t place = all[block * kFacts + kPlace];
    if (place != kNotCalled) by_place[place] = block;
  }
  ActivationTimeline timeline;
  for (const auto& [place, block] : by_place) {
    timeline.blocks.push_back(block_of(blocks[block].first, &all[block * kFacts]));
  }
  equalise_times(timeline.blocks);
  const auto peaks = std::span(all).subspan(blocks.size() * kFacts);
  timeline.peaks.assign(peaks.begin(), peaks.begin() + static_cast<ptrdiff_t>(timeline.blocks.size()));
  timeline.peaks.push_back(std::ranges::max(peaks.subspan(timeline.blocks.size())));
  return timeline;
}

}  // namespace

ActivationBudget::ActivationBudget(int64_t bytes, const std::vector<std::string>& blocks,
                                   const std::shared_ptr<interpose::ActivationCount>& count)
    : bytes_(bytes), measured_(std::make_shared<MeasuredBlocks>(blocks.size(), count)) {
  for (const std::string& name : blocks) {
    blocks_.emplace_back(name, std::make_shared<BlockBudget>(measured_, blocks_.size()));
  }
}

void ActivationBudget::backward_ends(collectives::Group& group) {
  if (!measures()) return;
  const torch::Tensor own = torch::tensor(message_of_facts(measured_->facts()), torch::kInt64);
  const std::vector<torch::Tensor> messages = group.all_gather(own, "exchanges the sizes of its activations");
  const ActivationTimeline timeline = timeline_of(joined(messages, blocks_.size()), blocks_);
  found_ = ActivationDecision{.measured = timeline, .plan = plan_activations(timeline, bytes_)};
}

void ActivationBudget::step_ends() {
  if (!measures() || !found_) return;
  decision_ = std::move(found_);
  std::map<std::string, KeptResults> kept;
  for (size_t i = 0; i < decision_->plan.keep.size(); ++i) {
    kept[decision_->measured.blocks[i].name] = decision_->plan.keep[i];
  }
  for (const auto& [name, block] : blocks_) {
    const auto found = kept.find(name);
    block->decide(found == kept.end() ? KeptResults::None : found->second);
  }
}

}  // namespace fsdp::engine
