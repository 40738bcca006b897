// The traffic of units, beside counts of each message.
#include "plan/data_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace fsdp::plan {
namespace {

using layout::GradientLayout;
using layout::UnitLayout;

// One unit on ranks of given hosts.
struct Case {
  Unit unit = {};
  UnitUses uses = {};
  Sharding sharding = {};
  std::vector<int64_t> hosts = {};
};

// The messages of one rank, counted one by one.
class Messages {
 public:
  Messages(const Case& of, int rank)
      : case_(of), rank_(rank), layout_(numels(of), ranks(), group()), gradients_(layout_, trained(of)) {}

  Communication count() const {
    Communication sum;
    case_.sharding.on_gpus ? of_rings(sum) : of_shared_memory(sum);
    return sum;
  }

 private:
  static std::vector<int64_t> numels(const Case& of) {
    std::vector<int64_t> numels;
    for (const Parameter& parameter : of.unit) numels.push_back(parameter.numel);
    return numels;
  }
  static std::vector<uint8_t> trained(const Case& of) {
    std::vector<uint8_t> trained;
    for (const Parameter& parameter : of.unit) trained.push_back(parameter.is_trained ? 1 : 0);
    return trained;
  }
  int ranks() const { return static_cast<int>(case_.sharding.ranks); }
  int group() const { return static_cast<int>(case_.sharding.group); }
  int64_t host(int rank) const { return case_.hosts[static_cast<size_t>(rank)]; }
  bool is_here(int peer) const { return host(peer) == host(rank_); }
  double slice(int rank) const { return static_cast<double>(gradients_.slice_of(rank).numel()); }
  static void add(Traffic& traffic, double bytes, bool within) { (within ? traffic.within : traffic.across) += bytes; }

  std::vector<int> ranks_where(auto holds) const {
    std::vector<int> found;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (holds(rank)) found.push_back(rank);
    }
    return found;
  }
  std::vector<int> group_ranks() const {
    return ranks_where([&](int peer) { return peer / group() == rank_ / group(); });
  }
  std::vector<int> replicas() const {
    return ranks_where([&](int peer) { return peer % group() == rank_ % group(); });
  }

  void of_shared_memory(Communication& sum) const {
    const double shard = static_cast<double>(case_.uses.gathers * layout_.shard_numel() * case_.sharding.param_bytes);
    const std::vector<int> owners = group_ranks();
    const auto sharers = std::ranges::count_if(owners, [&](int peer) { return is_here(peer); });
    for (const int peer : owners) sum.gathers.across += is_here(peer) ? 0 : shard / static_cast<double>(sharers);
    const auto times = static_cast<double>(case_.uses.reductions);
    std::set<int64_t> others;
    for (int peer = 0; peer < ranks(); ++peer) {
      if (peer != rank_ && is_here(peer))
        sum.reductions.within += times * slice(rank_) * static_cast<double>(case_.sharding.reduce_bytes);
      if (!is_here(peer) && others.insert(host(peer)).second) sum.reductions.across += times * slice(rank_) * 4;
    }
    for (const int peer : replicas()) {
      if (peer != rank_) add(sum.reductions, times * slice(peer) * 4, is_here(peer));
    }
  }

  // Ranks of a host are neighbours in a ring. `bytes` come to each rank from the one before it; a rank counts the mean
  // of its host.
  void pass_on(std::vector<int> ring, double bytes, Traffic& traffic) const {
    std::ranges::sort(ring, {}, [&](int rank) { return std::pair(host(rank), rank); });
    const auto here = std::ranges::count_if(ring, [&](int rank) { return is_here(rank); });
    for (size_t i = 0; i < ring.size(); ++i) {
      const int before = ring[(i + ring.size() - 1) % ring.size()];
      if (is_here(ring[i])) add(traffic, bytes / static_cast<double>(here), is_here(before));
    }
  }

  void of_rings(Communication& sum) const {
    const auto gathers = static_cast<double>(case_.uses.gathers), times = static_cast<double>(case_.uses.reductions);
    const double shard = static_cast<double>(layout_.shard_numel() * case_.sharding.param_bytes);
    pass_on(group_ranks(), gathers * shard * (group() - 1), sum.gathers);
    if (gradients_.full_numel() == 0) return;
    const bool equal = std::ranges::all_of(case_.unit, &Parameter::is_trained);
    const double part =
        equal ? static_cast<double>(layout_.slice_numel()) : 2 * static_cast<double>(gradients_.full_numel()) / ranks();
    const double element = static_cast<double>(case_.sharding.reduce_bytes);
    pass_on(ranks_where([](int) { return true; }), times * element * part * (ranks() - 1), sum.reductions);
    double others = 0;
    for (const int peer : replicas()) others += peer == rank_ ? 0 : slice(peer);
    pass_on(replicas(), times * 4 * others, sum.reductions);
  }

  const Case& case_;
  int rank_;
  UnitLayout layout_;
  GradientLayout gradients_;
};

int divisor_of(int number, std::mt19937& random) {
  std::vector<int> divisors;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors[random() % divisors.size()];
}

Case random_case(std::mt19937& random) {
  Case made{.uses = {static_cast<int64_t>(random() % 4), static_cast<int64_t>(random() % 4)}};
  made.unit.resize(1 + random() % 4);
  const bool some_frozen = random() % 2 == 0;
  for (Parameter& parameter : made.unit)
    parameter = {.numel = static_cast<int64_t>(random() % 1000), .is_trained = !some_frozen || random() % 2 == 0};
  const int ranks = 1 + static_cast<int>(random() % 12);
  made.sharding = {.ranks = ranks,
                   .group = divisor_of(ranks, random),
                   .param_bytes = random() % 2 == 0 ? 2 : 4,
                   .reduce_bytes = random() % 2 == 0 ? 2 : 4,
                   .on_gpus = random() % 2 == 0};
  for (int rank = 0; rank < ranks; ++rank) made.hosts.push_back(static_cast<int64_t>(random() % 3));
  if (random() % 2 == 0) std::ranges::sort(made.hosts);
  return made;
}

void expect_near(const Traffic& found, const Traffic& counted) {
  const double tolerance = 1e-9 * (1 + counted.sum());
  EXPECT_NEAR(found.within, counted.within, tolerance);
  EXPECT_NEAR(found.across, counted.across, tolerance);
}

TEST(DataTraffic, IsThatOfEachMessage) {
  std::mt19937 random(1);
  for (int i = 0; i < 3'000 && !::testing::Test::HasFailure(); ++i) {
    const Case of = random_case(random);
    const DataTraffic traffic({of.unit}, {of.uses}, of.sharding);
    const DataRanks ranks(of.hosts);
    for (int rank = 0; rank < of.sharding.ranks; ++rank) {
      SCOPED_TRACE(::testing::Message() << "case " << i << ", rank " << rank << " of " << of.sharding.ranks
                                        << ", group " << of.sharding.group << ", on_gpus " << of.sharding.on_gpus);
      const Communication found = traffic.of(ranks, rank), counted = Messages(of, rank).count();
      expect_near(found.gathers, counted.gathers);
      expect_near(found.reductions, counted.reductions);
    }
  }
}

TEST(DataTraffic, OfEqualUnitsIsThatOfEach) {
  const Sharding sharding{.ranks = 6, .group = 3, .on_gpus = true};
  const DataRanks ranks({0, 0, 0, 1, 1, 1});
  const Unit one = {{.numel = 100}}, other = {{.numel = 7}};
  const DataTraffic all({one, other, one}, {{2, 1}, {1, 1}, {1, 3}}, sharding);
  Communication sum;
  for (const auto& [unit, uses] :
       std::vector<std::pair<Unit, UnitUses>>{{one, {2, 1}}, {other, {1, 1}}, {one, {1, 3}}}) {
    const Communication part = DataTraffic({unit}, {uses}, sharding).of(ranks, 4);
    sum.gathers_count += part.gathers_count;
    sum.reductions_count += part.reductions_count;
    sum.gathers = {sum.gathers.within + part.gathers.within, sum.gathers.across + part.gathers.across};
    sum.reductions = {sum.reductions.within + part.reductions.within, sum.reductions.across + part.reductions.across};
  }
  const Communication found = all.of(ranks, 4);
  EXPECT_EQ(found.gathers_count, sum.gathers_count);
  EXPECT_EQ(found.reductions_count, sum.reductions_count);
  expect_near(found.gathers, sum.gathers);
  expect_near(found.reductions, sum.reductions);
}

TEST(DataRanks, OfAHostMayLieInSeveralRuns) {
  const DataRanks ranks({7, 7, 3, 7});
  EXPECT_EQ(ranks.hosts(), 2);
  EXPECT_FALSE(ranks.are_even());
  EXPECT_EQ(ranks.on_host_of(3), (std::vector<layout::Range>{{0, 2}, {3, 4}}));
  EXPECT_TRUE(DataRanks({7, 3, 3, 7}).are_even());
}

}  // namespace
}  // namespace fsdp::plan
