#include "schedule/agreement.h"

#include <algorithm>

namespace fsdp::schedule {

bool Agreement::any_has_batch(bool here) {
  const int64_t own[] = {int64_t{here}, hash_of(schedule_.learnt())};
  const auto all = peers_.all_gather(own, "asks whether any rank has a batch");
  const auto has = [](const auto& one) { return one[0] != 0; };
  const bool any = std::ranges::any_of(all, has), every = std::ranges::all_of(all, has);
  followed_ = any && !every;
  follows_ = followed_ && !here;
  plans_alike_ = std::ranges::all_of(all, [&](const auto& one) { return one[1] == all[0][1]; });
  return any;
}

Round Agreement::enter_round(RankReport own) {
  own.changes = schedule_.changes();
  own.gathers = static_cast<int64_t>(begun_.size());
  own.plans = in_rounds() ? hash_of(schedule_.all_learnt()) : 0;
  own.reductions_as_before = peers_.reductions_as_before();
  std::vector<int64_t> words(words_of_report(own.counts.size()));
  pack(own, words);
  const std::string purpose = followed_     ? "takes part in a step in which some ranks have no batch"
                              : in_rounds() ? "has ended its backward or gathers outside of a plan"
                                            : describe(unpack_report(words), facts_.units);
  RankReports reports;
  for (const auto& one : peers_.all_gather(words, purpose)) reports.push_back(unpack_report(one));
  check_can_go_on(reports, in_rounds(), facts_.units, facts_.names);
  Round round = merge(reports, facts_.sharers);
  if (gathers_differ(reports)) round.missed = exchange_gathers(reports);
  as_before_ = round.reductions_as_before;
  begun_.clear();
  return round;
}

std::vector<UnitId> Agreement::exchange_gathers(const RankReports& reports) {
  const int64_t most = std::ranges::max(reports, {}, &RankReport::gathers).gathers;
  std::vector<int64_t> own(most, -1);
  std::ranges::copy(begun_, own.begin());
  std::vector<std::vector<UnitId>> lists;
  for (const auto& one : peers_.all_gather(own, "says which gathers it has begun"))
    lists.emplace_back(one.begin(), one.begin() + reports[lists.size()].gathers);
  return missed_gathers(lists, facts_.rank, facts_.sharers, facts_.units, facts_.names);
}

}  // namespace fsdp::schedule
