#include "plan/data_traffic.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plan/checks.h"

namespace fsdp::plan {

namespace {

using layout::GradientLayout;
using layout::Range;
using layout::UnitLayout;

constexpr double kSumBytes = 4;  // sums are fp32
constexpr int64_t kMostUses = int64_t{1} << 40;

int64_t ranks_in(const std::vector<Range>& runs, Range among) {
  int64_t ranks = 0;
  for (const Range& run : runs) ranks += layout::intersect(run, among).numel();
  return ranks;
}

// GPUs pass tensors on in a ring in which ranks of a host are neighbours: of the `here` ranks of a host, one receives
// from another host. A rank receives the mean.
void add_ring(double bytes, int64_t here, int64_t ranks, Traffic& traffic) {
  const double across = here == ranks ? 0 : bytes / static_cast<double>(here);
  traffic.across += across;
  traffic.within += bytes - across;
}

std::vector<uint8_t> trained_of(const Unit& unit) {
  std::vector<uint8_t> trained;
  for (const Parameter& parameter : unit) trained.push_back(parameter.is_trained ? 1 : 0);
  return trained;
}

UnitLayout layout_of_ranks(const Unit& unit, const Sharding& sharding) {
  std::vector<int64_t> numels;
  for (const Parameter& parameter : unit) numels.push_back(parameter.numel);
  return {numels, static_cast<int>(sharding.ranks), static_cast<int>(sharding.group)};
}

void check_uses(const std::vector<Unit>& units, const std::vector<UnitUses>& uses) {
  FSDP_CHECK(uses.size() == units.size(), "plan: found the uses of {} units, expected those of {}.", uses.size(),
             units.size());
  for (const auto& [gathers, reductions] : uses)
    FSDP_CHECK(gathers >= 0 && gathers <= kMostUses && reductions >= 0 && reductions <= kMostUses,
               "plan: found {} gathers and {} reductions of a unit, expected 0 to {} of each.", gathers, reductions,
               kMostUses);
}

}  // namespace

DataRanks::DataRanks(const std::vector<int64_t>& hosts) {
  std::map<int64_t, size_t> numbers;
  for (const int64_t host : hosts) {
    const size_t number = numbers.emplace(host, runs_.size()).first->second;
    if (number == runs_.size()) runs_.emplace_back();
    const int64_t rank = size();
    std::vector<Range>& own = runs_[number];
    if (own.empty() || own.back().end != rank) own.push_back({rank, rank});
    ++own.back().end;
    host_of_.push_back(number);
  }
}

bool DataRanks::are_even() const {
  return std::ranges::all_of(runs_, [&](const std::vector<Range>& runs) {
    return ranks_in(runs, {0, size()}) * hosts() == size();
  });
}

const std::vector<Range>& DataRanks::on_host_of(int64_t rank) const {
  return runs_[host_of_[static_cast<size_t>(rank)]];
}

DataTraffic::DataTraffic(const std::vector<Unit>& units, const std::vector<UnitUses>& uses, const Sharding& sharding)
    : sharding_(sharding) {
  check_sharding(sharding);
  check_units(units, sharding);
  check_uses(units, uses);
  for (size_t i = 0; i < units.size(); ++i) {
    auto kind = std::ranges::find(kinds_, units[i], &EqualUnits::unit);
    if (kind == kinds_.end()) {
      const UnitLayout layout = layout_of_ranks(units[i], sharding);
      const std::vector<uint8_t> trained = trained_of(units[i]);
      kinds_.push_back(
          {units[i], layout, GradientLayout(layout, trained), std::ranges::find(trained, 0) == trained.end(), {}});
      kind = kinds_.end() - 1;
    }
    kind->uses.gathers += uses[i].gathers;
    kind->uses.reductions += uses[i].reductions;
  }
}

// On CPUs, ranks of a host share full units: a gather copies nothing there, and fetches others' shards once.
void DataTraffic::add_gathers(const EqualUnits& units, const DataRanks& ranks, int64_t rank, Traffic& gathers) const {
  const int64_t group = sharding_.group, first = rank / group * group;
  const int64_t here = ranks_in(ranks.on_host_of(rank), {first, first + group});
  const double shard =
      static_cast<double>(units.uses.gathers) * static_cast<double>(units.layout.shard_numel() * sharding_.param_bytes);
  if (sharding_.on_gpus) {
    add_ring(shard * static_cast<double>(group - 1), here, group, gathers);
  } else {
    gathers.across += shard * static_cast<double>(group - here) / static_cast<double>(here);
  }
}

// Each rank adds up a slice. Hosts of CPUs send running sums. GPUs add up slices of equal length on their way around,
// and others as whole tensors.
void DataTraffic::add_sums(const EqualUnits& units, const DataRanks& ranks, int64_t rank, Traffic& reductions) const {
  const auto times = static_cast<double>(units.uses.reductions);
  const auto all = static_cast<double>(sharding_.ranks), element = static_cast<double>(sharding_.reduce_bytes);
  const int64_t here = ranks_in(ranks.on_host_of(rank), {0, sharding_.ranks});
  if (sharding_.on_gpus) {
    const double numel = units.all_trained ? static_cast<double>(units.layout.slice_numel())
                                           : 2 * static_cast<double>(units.gradients.full_numel()) / all;
    add_ring(times * numel * element * (all - 1), here, sharding_.ranks, reductions);
  } else {
    const auto slice = static_cast<double>(units.gradients.slice_of(static_cast<int>(rank)).numel());
    reductions.within += times * slice * element * static_cast<double>(here - 1);
    reductions.across += times * slice * kSumBytes * static_cast<double>(ranks.hosts() - 1);
  }
}

// Replicas are at equal places of their groups. Those of consecutive groups add up neighbouring slices.
DataTraffic::Numbers DataTraffic::replicas_on_host(const EqualUnits& units, const DataRanks& ranks,
                                                   int64_t rank) const {
  const int64_t group = sharding_.group, place = rank % group;
  Numbers replicas;
  for (const Range& run : ranks.on_host_of(rank)) {
    const int64_t first = (run.begin - place + group - 1) / group, end = (run.end - place + group - 1) / group;
    if (first >= end) continue;
    const auto slice_of = [&](int64_t index) {
      return units.gradients.slice_of(static_cast<int>(index * group + place));
    };
    replicas.ranks += end - first;
    replicas.numel += slice_of(end - 1).end - slice_of(first).begin;
  }
  return replicas;
}

// Replicas exchange their slices of a shard.
void DataTraffic::add_replicas(const EqualUnits& units, const DataRanks& ranks, int64_t rank,
                               Traffic& reductions) const {
  const auto own = static_cast<int>(rank);
  const int64_t slice = units.gradients.slice_of(own).numel(), shard = units.gradients.shard_of(own).numel();
  const Numbers here = replicas_on_host(units, ranks, rank);
  const double sum = kSumBytes * static_cast<double>(units.uses.reductions);
  if (sharding_.on_gpus) {
    add_ring(sum * static_cast<double>(shard - slice), here.ranks, sharding_.ranks / sharding_.group, reductions);
  } else {
    reductions.within += sum * static_cast<double>(here.numel - slice);
    reductions.across += sum * static_cast<double>(shard - here.numel);
  }
}

Communication DataTraffic::of(const DataRanks& ranks, int64_t rank) const {
  FSDP_CHECK(ranks.size() == sharding_.ranks && rank >= 0 && rank < ranks.size(),
             "plan: found rank {} of {}, expected one of the {} ranks of the sharding.", rank, ranks.size(),
             sharding_.ranks);
  Communication communication;
  for (const EqualUnits& units : kinds_) {
    if (sharding_.group > 1) {
      communication.gathers_count += units.uses.gathers;
      add_gathers(units, ranks, rank, communication.gathers);
    }
    if (units.gradients.full_numel() == 0) continue;
    communication.reductions_count += units.uses.reductions;
    add_sums(units, ranks, rank, communication.reductions);
    add_replicas(units, ranks, rank, communication.reductions);
  }
  return communication;
}

std::vector<Communication> communication(const std::vector<Unit>& units, const Sharding& sharding,
                                         const std::vector<UnitUses>& uses) {
  const DataTraffic traffic(units, uses, sharding);
  const int64_t ranks_of_host = sharding.ranks / sharding.hosts;
  std::vector<int64_t> hosts;
  for (int64_t rank = 0; rank < sharding.ranks; ++rank) hosts.push_back(rank / ranks_of_host);
  const DataRanks ranks(hosts);
  std::vector<Communication> of_rank;
  for (int64_t rank = 0; rank < ranks_of_host; ++rank) of_rank.push_back(traffic.of(ranks, rank));
  return of_rank;
}

}  // namespace fsdp::plan
