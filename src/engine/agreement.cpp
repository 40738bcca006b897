#include "engine/agreement.h"

#include <algorithm>
#include <utility>

namespace fsdp::engine {

namespace {

std::span<const int64_t> words_of(const torch::Tensor& message) {
  return {message.const_data_ptr<int64_t>(), static_cast<size_t>(message.numel())};
}

std::span<int64_t> words_of(torch::Tensor& message) {
  return {message.mutable_data_ptr<int64_t>(), static_cast<size_t>(message.numel())};
}

}  // namespace

Agreement::Agreement(collectives::Group& group, const Units& units, const schedule::Schedule& schedule,
                     Recorder& recorder)
    : group_(group), units_(units), schedule_(schedule), recorder_(recorder), sharers_(group.size(), 1) {
  for (const auto& unit : units) names_.push_back(unit->name);
  for (int rank = 0; rank < group.size() && !units.empty(); ++rank) {
    const layout::UnitLayout& layout = units[0]->layout;
    sharers_[rank] = layout.group_index(rank) == layout.group_index(group.rank());
  }
}

bool Agreement::any_has_batch(bool here, const std::vector<int>& plans) {
  const torch::Tensor own = torch::tensor({int64_t{here}, schedule::hash_of(plans)});
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

std::vector<torch::Tensor> Agreement::all_gather(const torch::Tensor& message, const std::string& purpose) {
  const auto wait = [&] { return group_.all_gather(message, purpose); };
  return recorder_.waits(Activity::WaitAgreement, kNoUnit, wait);
}

schedule::Round Agreement::enter_round(schedule::RankReport own) {
  own.changes = schedule_.changes();
  own.gathers = static_cast<int64_t>(begun_.size());
  own.plans = in_rounds() ? schedule::hash_of(schedule_.all_learnt()) : 0;
  own.reductions_as_before = group_.reductions_as_before();
  torch::Tensor message =
      torch::empty({static_cast<int64_t>(schedule::words_of_report(own.counts.size()))}, torch::kInt64);
  schedule::pack(own, words_of(message));
  const std::string purpose =
      followed_     ? "takes part in a step in which some ranks have no batch"
      : in_rounds() ? "has ended its backward or gathers outside of a plan"
                    : schedule::describe(schedule::unpack_report(words_of(std::as_const(message))), names_);
  schedule::RankReports reports;
  for (const torch::Tensor& one : all_gather(message, purpose))
    reports.push_back(schedule::unpack_report(words_of(one)));
  schedule::check_can_go_on(reports, in_rounds(), names_);
  schedule::Round round = schedule::merge(reports, sharers_);
  if (schedule::gathers_differ(reports)) round.missed = exchange_gathers(reports);
  as_before_ = round.reductions_as_before;
  begun_.clear();
  return round;
}

std::vector<int> Agreement::exchange_gathers(const schedule::RankReports& reports) {
  const int64_t most = std::ranges::max(reports, {}, &schedule::RankReport::gathers).gathers;
  torch::Tensor own = torch::full({most}, -1, torch::kInt64);
  std::ranges::copy(begun_, own.mutable_data_ptr<int64_t>());
  std::vector<std::vector<int>> lists;
  for (const torch::Tensor& one : all_gather(own, "says which gathers it has begun")) {
    const auto words = words_of(one).first(static_cast<size_t>(reports[lists.size()].gathers));
    lists.emplace_back(words.begin(), words.end());
  }
  return schedule::missed_gathers(lists, group_.rank(), sharers_, names_);
}

}  // namespace fsdp::engine
