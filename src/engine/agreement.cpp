#include "engine/agreement.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"

namespace fsdp::engine {

namespace {

// The words of a message: kind of activity, unit, operator, changes of the shards, gathers since the last round, hash
// of the coming plans. Then: 1 if reductions repeated the last backward, hash of written values, 1 if these changed,
// counts of the units. The last bytes of the operator's name may be cut off.
constexpr size_t kUnit = 1, kName = 2, kNameWords = 6, kChanges = kName + kNameWords, kBegun = kChanges + 1,
                 kPlans = kBegun + 1, kAsBefore = kPlans + 1, kHash = kAsBefore + 1, kChanged = kHash + 1,
                 kHeaderWords = kChanged + 1;

const int64_t* words_of(const torch::Tensor& message) { return message.const_data_ptr<int64_t>(); }

UnitCounts largest(UnitCounts counts, const std::vector<torch::Tensor>& messages) {
  const size_t words = schedule::words_of_counts(counts.size());
  for (const torch::Tensor& message : messages) {
    schedule::take_largest(counts, schedule::unpack({words_of(message) + kHeaderWords, words}));
  }
  return counts;
}

void write_operation(int64_t* words, std::string_view operation) {
  std::fill_n(words + kName, kNameWords, 0);
  std::memcpy(words + kName, operation.data(), std::min(operation.size(), kNameWords * sizeof(int64_t)));
}

std::string operation_of(const torch::Tensor& message) {
  const auto* name = reinterpret_cast<const char*>(words_of(message) + kName);
  return {name, strnlen(name, kNameWords * sizeof(int64_t))};
}

int64_t hash_of(const std::vector<int>& numbers) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const int number : numbers) hash = (hash ^ static_cast<uint32_t>(number)) * 1099511628211u;
  return static_cast<int64_t>(hash);
}

}  // namespace

bool Agreement::any_has_batch(bool here, const std::vector<int>& plans) {
  const torch::Tensor own = torch::tensor({int64_t{here}, hash_of(plans)});
  const auto wait = [&] { return group_.all_gather(own, "asks whether any rank has a batch"); };
  const std::vector<torch::Tensor> all = recorder_.waits(Activity::WaitAgreement, kNoUnit, wait);
  const auto has = [](const torch::Tensor& one) { return one.const_data_ptr<int64_t>()[0] != 0; };
  const auto same_plans = [&](const torch::Tensor& one) {
    return one.const_data_ptr<int64_t>()[1] == all[0].const_data_ptr<int64_t>()[1];
  };
  const bool any = std::any_of(all.begin(), all.end(), has), every = std::all_of(all.begin(), all.end(), has);
  followed_ = any && !every;
  follows_ = followed_ && !here;
  plans_alike_ = std::all_of(all.begin(), all.end(), same_plans);
  return any;
}

bool Agreement::in_rounds() const {
  if (units_.empty() || !schedule_.shares_buffers()) return false;
  const collectives::Capabilities capabilities = units_[0]->collectives->capabilities();
  return capabilities.joins && !capabilities.one_sided;
}

Agreement::Round Agreement::gathers(int unit, std::string_view operation, const UnitCounts& counts) {
  return exchange({Kind::Gathers, unit, operation}, counts);
}

Agreement::Round Agreement::waits(int unit, const UnitCounts& counts) { return exchange({Kind::Waits, unit}, counts); }

Agreement::Round Agreement::writes(int unit, std::string_view operation, const Written& written,
                                   const UnitCounts& counts) {
  return exchange({Kind::Writes, unit, operation, written}, counts);
}

Agreement::Round Agreement::ends_backward(const UnitCounts& counts) { return exchange({Kind::EndsBackward}, counts); }

Agreement::Round Agreement::follow(const UnitCounts& counts) {
  const Round round = exchange({Kind::Follows}, counts);
  FSDP_CHECK(leaders_ > 0,
             "every rank calls backward_without_batch(), though one said that it has a batch. Call it where "
             "any_rank_has_batch(false) was called, and run the backward where any_rank_has_batch(true) was.");
  return round;
}

Agreement::Messages Agreement::all_gather(const torch::Tensor& message, const std::string& purpose) {
  const auto wait = [&] { return group_.all_gather(message, purpose); };
  return recorder_.waits(Activity::WaitAgreement, kNoUnit, wait);
}

bool Agreement::leads(const torch::Tensor& message) const { return Kind(words_of(message)[0]) != Kind::Follows; }

bool Agreement::shares_shards_with(int rank) const {
  const layout::UnitLayout& layout = units_[0]->layout;
  return layout.group_index(rank) == layout.group_index(group_.rank());
}

// Every message has the same shape, so that ranks that went different ways still understand each other.
Agreement::Round Agreement::exchange(const Doing& activity, const UnitCounts& counts) {
  const size_t count_words = schedule::words_of_counts(counts.size());
  torch::Tensor message = torch::empty({static_cast<int64_t>(kHeaderWords + count_words)}, torch::kInt64);
  auto* words = message.mutable_data_ptr<int64_t>();
  words[0] = static_cast<int64_t>(activity.kind);
  words[kUnit] = activity.unit;
  write_operation(words, activity.operation);
  words[kChanges] = schedule_.changes();
  words[kBegun] = static_cast<int64_t>(begun_.size());
  words[kPlans] = in_rounds() ? hash_of(schedule_.all_learnt()) : 0;
  words[kAsBefore] = group_.reductions_as_before();
  words[kHash] = activity.written.hash;
  words[kChanged] = activity.written.changed;
  schedule::pack(counts, {words + kHeaderWords, count_words});
  const std::string purpose = followed_     ? "takes part in a step in which some ranks have no batch"
                              : in_rounds() ? "has ended its backward or gathers outside of a plan"
                                            : describe(message);
  const Messages messages = all_gather(message, purpose);
  check_can_go_on(messages);
  Round round;
  round.counts = largest(counts, messages);
  leaders_ = std::ranges::count_if(messages, [this](const torch::Tensor& one) { return leads(one); });
  as_before_ = std::ranges::all_of(messages, [](const torch::Tensor& one) { return words_of(one)[kAsBefore] != 0; });
  std::set<int> gathered;
  const torch::Tensor* first = nullptr;
  round.ended = true;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto* theirs = words_of(messages[rank]);
    if (!leads(messages[rank])) continue;
    const auto kind = Kind(theirs[0]);
    round.ended &= kind == Kind::EndsBackward;
    round.wrote_alike &= theirs[kHash] == words[kHash];
    round.changed |= theirs[kChanged] != 0;
    if (kind == Kind::Gathers && shares_shards_with(rank)) gathered.insert(static_cast<int>(theirs[kUnit]));
    if (first == nullptr) first = &messages[rank];
    for (size_t word : {size_t{0}, kUnit, kBegun, kPlans}) round.alike &= theirs[word] == words_of(*first)[word];
  }
  round.gathered.assign(gathered.begin(), gathered.end());
  round.missed = find_missed(messages);
  begun_.clear();
  return round;
}

// Returns the gathers that ranks with the same shards have begun, and this rank has not. All followed the same plan, so
// these gathers are the end of the longest list.
std::vector<int> Agreement::find_missed(const Messages& messages) {
  int64_t most = 0;
  bool differ = false;
  for (const torch::Tensor& message : messages) {
    most = std::max(most, words_of(message)[kBegun]);
    differ |= words_of(message)[kBegun] != words_of(messages[0])[kBegun];
  }
  if (!differ) return {};
  torch::Tensor own = torch::full({most}, -1, torch::kInt64);
  std::copy(begun_.begin(), begun_.end(), own.mutable_data_ptr<int64_t>());
  const Messages lists = all_gather(own, "says which gathers it has begun");
  const size_t here = begun_.size();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (!shares_shards_with(rank)) continue;
    const auto* theirs = words_of(lists[rank]);
    const auto count = static_cast<size_t>(words_of(messages[rank])[kBegun]);
    for (size_t i = 0; i < count; ++i) {
      if (i == begun_.size()) begun_.push_back(static_cast<int>(theirs[i]));
      FSDP_CHECK(
          begun_[i] == theirs[i],
          "rank {} gathers unit {} where another gathers unit {}, each as its plan says. Every rank must run the "
          "same part of the model where units are gathered ahead; does its control flow depend on the data?",
          rank, units_.at(theirs[i])->name, units_.at(begun_[i])->name);
    }
  }
  return {begun_.begin() + static_cast<std::ptrdiff_t>(here), begun_.end()};
}

std::string Agreement::describe(const torch::Tensor& message) const {
  const auto kind = Kind(words_of(message)[0]);
  if (kind == Kind::EndsBackward) return "has ended its backward";
  if (kind == Kind::Follows) return "has no batch";
  const std::string& unit = units_.at(words_of(message)[kUnit])->name;
  if (kind == Kind::Waits) return fmt::format("waits for unit {}", unit);
  const std::string operation = operation_of(message);
  if (kind == Kind::Writes) return fmt::format("writes unit {}, for {}", unit, operation);
  return fmt::format("gathers unit {} outside of a plan{}", unit, operation.empty() ? "" : ", for " + operation);
}

// A peer that has taken fewer steps needs the shards before their last change, which are gone.
void Agreement::check_can_go_on(const Messages& messages) const {
  // The same on every rank, which then throw the same error.
  const auto leader =
      std::find_if(messages.begin(), messages.end(), [this](const torch::Tensor& one) { return leads(one); });
  for (auto other = messages.begin(); other != messages.end(); ++other) {
    if (leader == messages.end() || !leads(*other)) continue;
    const auto *ours = words_of(*leader), *theirs = words_of(*other);
    const bool same_activity = ours[0] == theirs[0] && ours[kUnit] == theirs[kUnit];
    const bool writes = Kind(ours[0]) == Kind::Writes || Kind(theirs[0]) == Kind::Writes;
    const int64_t ahead = theirs[kChanges] - ours[kChanges];
    FSDP_CHECK(ahead == 0 && (same_activity || (in_rounds() && !writes)),
               "rank {} {} where rank {} {}{}. Every rank must run the same part of the model; does its control flow "
               "depend on the data? Where one rank alone reads a parameter, for a log or an evaluation, let every "
               "rank do it.",
               other - messages.begin(), describe(*other), leader - messages.begin(), describe(*leader),
               ahead == 0  ? ""
               : ahead < 0 ? ", after a step that the first has not taken"
                           : ", before a step that the first has taken");
  }
}

}  // namespace fsdp::engine
