// What ranks tell each other while a step runs: which unit they gather where no plan says it, what is left to reduce at
// the end of backward, and who has a batch at all.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

namespace {

// What a rank does, told to the others; otherwise the unit it gathers.
constexpr int64_t kEndsBackward = -1;
constexpr int64_t kFollows = -2;

std::vector<int64_t> largest(std::vector<int64_t> account, const std::vector<torch::Tensor>& messages) {
  for (const torch::Tensor& message : messages) {
    const auto* theirs = message.const_data_ptr<int64_t>() + 1;
    for (size_t i = 0; i < account.size(); ++i) account[i] = std::max(account[i], theirs[i]);
  }
  return account;
}

int64_t activity_of(const torch::Tensor& message) { return message.const_data_ptr<int64_t>()[0]; }

bool leads(const torch::Tensor& message) { return activity_of(message) != kFollows; }

}  // namespace

// Every message has the same shape, so that ranks that went different ways still understand each other.
std::vector<torch::Tensor> Model::exchange(int64_t activity, std::vector<int64_t> account) {
  torch::Tensor message = torch::empty({static_cast<int64_t>(1 + account.size())}, torch::kInt64);
  auto* words = message.mutable_data_ptr<int64_t>();
  words[0] = activity;
  std::copy(account.begin(), account.end(), words + 1);
  std::string purpose = followed_                   ? "takes part in a step in which some ranks have no batch"
                        : activity == kEndsBackward ? describe(activity)
                                                    : describe(activity) + " outside of a plan";
  const auto wait = [&] { return group_->all_gather(message, purpose); };
  std::vector<torch::Tensor> messages = recorder_.waits(Activity::WaitAgreement, kNoUnit, wait);
  check_same_activity(messages);
  return messages;
}

std::string Model::describe(int64_t activity) const {
  return activity == kEndsBackward ? "has ended its backward" : "gathers unit " + units_.at(activity)->name;
}

void Model::check_same_activity(const std::vector<torch::Tensor>& messages) const {
  const auto leader = leads(messages[group_->rank()]) ? messages.begin() + group_->rank()
                                                      : std::find_if(messages.begin(), messages.end(), leads);
  for (auto other = messages.begin(); other != messages.end(); ++other) {
    FSDP_CHECK(!leads(*other) || activity_of(*other) == activity_of(*leader),
               "rank {} {} where rank {} {}. Every rank must run the same part of the model; does its control flow "
               "depend on the data?",
               other - messages.begin(), describe(activity_of(*other)), leader - messages.begin(),
               describe(activity_of(*leader)));
  }
}

// In the form of an account.
std::vector<int64_t> Model::begun() const {
  std::vector<int64_t> account = schedule_->begun();
  account.resize(schedule_->account().size(), 0);
  return account;
}

// A rank may have no gradient of a unit that its peers have one of; it takes part in the reduction all the same.
std::vector<int64_t> Model::agree_on_account() {
  if (alone() || (no_sync_ > 0 && !followed_)) return schedule_->account();
  const std::vector<int64_t> own = schedule_->account();
  return largest(own, exchange(kEndsBackward, own));
}

// A rank may have learnt no plan yet, or an old one, because it followed.
bool Model::any_rank_has_batch(bool here) {
  std::lock_guard lock(mutex_);
  check_no_step_begun("any_rank_has_batch");
  const std::string plan = fmt::format("{}", fmt::join(schedule_->training().plan(), " "));
  const torch::Tensor own = torch::tensor({int64_t{here}, static_cast<int64_t>(std::hash<std::string>()(plan))});
  std::vector<torch::Tensor> all;
  const auto wait = [&] { return group_->all_gather(own, "asks whether any rank has a batch"); };
  guarded([&] { all = recorder_.waits(Activity::WaitAgreement, kNoUnit, wait); });
  const auto has = [](const torch::Tensor& one) { return one.const_data_ptr<int64_t>()[0] != 0; };
  const auto plans_alike = [&](const torch::Tensor& one) {
    return one.const_data_ptr<int64_t>()[1] == all[0].const_data_ptr<int64_t>()[1];
  };
  const bool any = std::any_of(all.begin(), all.end(), has), every = std::all_of(all.begin(), all.end(), has);
  followed_ = any && !every;
  follows_ = followed_ && !here;
  schedule_->set_followed(followed_ || !std::all_of(all.begin(), all.end(), plans_alike));
  return any;
}

void Model::backward_without_batch() {
  std::lock_guard lock(mutex_);
  note_mode();
  check_open();
  FSDP_CHECK(follows_,
             "backward_without_batch() is for a rank that has no batch where another has one. Ask "
             "any_rank_has_batch(false) on this rank first, and any_rank_has_batch(true) on the other.");
  if (written_) publish_all();
  torch::NoGradGuard no_grad;
  guarded([&] {
    perform(schedule_->follow());
    end_backward(follow());
  });
}

// Takes part in what the others do until the end of their backward, and returns what they agreed on there.
std::vector<int64_t> Model::follow() {
  const bool listens = schedule_->shares_buffers() && !units_.empty() && !units_[0]->collectives->gathers_alone();
  if (!listens) {
    perform(schedule_->repeat_reductions());
    return agree_on_account();
  }
  for (;;) {
    const std::vector<torch::Tensor> messages = exchange(kFollows, schedule_->account());
    const std::vector<int64_t> account = largest(schedule_->account(), messages);
    const auto leader = std::find_if(messages.begin(), messages.end(), leads);
    FSDP_CHECK(leader != messages.end(),
               "every rank calls backward_without_batch(), though one said that it has a batch. Call it where "
               "any_rank_has_batch(false) was called, and run the backward where any_rank_has_batch(true) was.");
    if (activity_of(*leader) == kEndsBackward) return account;
    gather_for_others(static_cast<int>(activity_of(*leader)));
    reduce_rest(account);
  }
}

void Model::gather_for_others(int id) {
  Unit& unit = *units_[id];
  recorder_.begins(Activity::Gather, id);
  unit.collectives->begin_gather(arena_->full.at(0, unit.layout.full_numel(), unit.dtype()));
  wait_gather(id);
  unit.collectives->release();
  arena_->full.release(0);
  ++communication_.gathers;
}

}  // namespace fsdp::engine
