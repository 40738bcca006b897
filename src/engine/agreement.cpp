#include "engine/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"

namespace fsdp::engine {

namespace {

// Activities of a rank, as numbers in its messages. Any other number is the unit that it gathers.
constexpr int64_t kEndsBackward = -1;
constexpr int64_t kFollows = -2;

// A message: the activity, the operator's name, of which the last bytes may be cut off, and the account.
constexpr size_t kNameWords = 6, kHeaderWords = 1 + kNameWords;

Account largest(Account account, const std::vector<torch::Tensor>& messages) {
  for (const torch::Tensor& message : messages) {
    const auto* theirs = message.const_data_ptr<int64_t>() + kHeaderWords;
    for (size_t i = 0; i < account.size(); ++i) account[i] = std::max(account[i], theirs[i]);
  }
  return account;
}

int64_t activity_of(const torch::Tensor& message) { return message.const_data_ptr<int64_t>()[0]; }

void write_operation(torch::Tensor& message, std::string_view operation) {
  auto* words = message.mutable_data_ptr<int64_t>() + 1;
  std::fill_n(words, kNameWords, 0);
  std::memcpy(words, operation.data(), std::min(operation.size(), kNameWords * sizeof(int64_t)));
}

std::string operation_of(const torch::Tensor& message) {
  const auto* name = reinterpret_cast<const char*>(message.const_data_ptr<int64_t>() + 1);
  return {name, strnlen(name, kNameWords * sizeof(int64_t))};
}

bool leads(const torch::Tensor& message) { return activity_of(message) != kFollows; }

}  // namespace

Account account_at_end(const schedule::Schedule& schedule) {
  Account account = schedule.account();
  account.insert(account.end(), schedule.changed().begin(), schedule.changed().end());
  return account;
}

Account account_so_far(const schedule::Schedule& schedule) {
  Account account = schedule.begun();
  account.resize(4 * schedule.changed().size());
  return account;
}

std::optional<int> changed_too_early(const Account& account) {
  const size_t units = account.size() / 4;
  for (size_t unit = 0; unit < units; ++unit) {
    if (account[3 * units + unit] > 0 && account[unit] > 1) return static_cast<int>(unit);
  }
  return std::nullopt;
}

bool Agreement::any_has_batch(bool here, const std::vector<int>& plans) {
  const auto hash = static_cast<int64_t>(std::hash<std::string>()(fmt::format("{}", fmt::join(plans, " "))));
  const torch::Tensor own = torch::tensor({int64_t{here}, hash});
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

void Agreement::gathers(int unit, std::string_view operation, const Account& account) {
  exchange(unit, operation, account);
}

Account Agreement::ends_backward(const Account& account) {
  return largest(account, exchange(kEndsBackward, "", account));
}

Agreement::Leaders Agreement::follow(const Account& account) {
  const std::vector<torch::Tensor> messages = exchange(kFollows, "", account);
  const auto leader = std::find_if(messages.begin(), messages.end(), leads);
  FSDP_CHECK(leader != messages.end(),
             "every rank calls backward_without_batch(), though one said that it has a batch. Call it where "
             "any_rank_has_batch(false) was called, and run the backward where any_rank_has_batch(true) was.");
  const int64_t activity = activity_of(*leader);
  const auto unit = activity == kEndsBackward ? std::nullopt : std::optional(static_cast<int>(activity));
  return {unit, largest(account, messages)};
}

// Every message has the same shape, so that ranks that went different ways still understand each other.
std::vector<torch::Tensor> Agreement::exchange(int64_t activity, std::string_view operation, const Account& account) {
  torch::Tensor message = torch::empty({static_cast<int64_t>(kHeaderWords + account.size())}, torch::kInt64);
  auto* words = message.mutable_data_ptr<int64_t>();
  words[0] = activity;
  write_operation(message, operation);
  std::copy(account.begin(), account.end(), words + kHeaderWords);
  const std::string purpose = followed_ ? "takes part in a step in which some ranks have no batch" : describe(message);
  const auto wait = [&] { return group_.all_gather(message, purpose); };
  std::vector<torch::Tensor> messages = recorder_.waits(Activity::WaitAgreement, kNoUnit, wait);
  check_same_activity(messages);
  return messages;
}

std::string Agreement::describe(const torch::Tensor& message) const {
  if (activity_of(message) == kEndsBackward) return "has ended its backward";
  const std::string operation = operation_of(message);
  return fmt::format("gathers unit {} outside of a plan{}", units_.at(activity_of(message))->name,
                     operation.empty() ? "" : ", for " + operation);
}

void Agreement::check_same_activity(const std::vector<torch::Tensor>& messages) const {
  const auto leader = leads(messages[group_.rank()]) ? messages.begin() + group_.rank()
                                                     : std::find_if(messages.begin(), messages.end(), leads);
  for (auto other = messages.begin(); other != messages.end(); ++other) {
    FSDP_CHECK(!leads(*other) || activity_of(*other) == activity_of(*leader),
               "rank {} {} where rank {} {}. Every rank must run the same part of the model; does its control flow "
               "depend on the data? Where one rank alone reads a parameter, for a log or an evaluation, let every "
               "rank do it.",
               other - messages.begin(), describe(*other), leader - messages.begin(), describe(*leader));
  }
}

}  // namespace fsdp::engine
