#include "report/step_shares.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace trainer {

namespace {

constexpr double kNanosecond = 1e-9;
constexpr std::string_view kStepSpan = "step ", kReadersWait = "readers of the shards",
                           kLossesSpan = "exchange of losses", kReadingSpan = "reading of losses";

// The time of one thing.
struct Claim {
  int64_t begin, end;
  double TimeShares::*share;
  std::string unit;
  int waited_for = -1;  // a rank
};
using Claims = std::vector<Claim>;

// "blocks.0" of "forward blocks.0"; all units if the name has none.
std::string unit_of(const std::string& name, std::initializer_list<std::string_view> kinds) {
  for (const std::string_view kind : kinds) {
    if (name.starts_with(kind) && name.size() > kind.size() + 1 && name[kind.size()] == ' ')
      return name.substr(kind.size() + 1);
  }
  return kAllUnits;
}

// The times at which each rank began an exchange of that name, one after the other.
class Begins {
 public:
  explicit Begins(const std::vector<RankTrace>& ranks, int ranks_of_replica) : of_replica_(ranks_of_replica) {
    for (const RankTrace& rank : ranks) {
      by_name_.emplace_back();
      for (const TraceSpan& span : rank.spans) {
        if (is_exchange(span)) by_name_.back()[key_of(span)].push_back(span);
      }
    }
  }

  struct Last {
    int64_t time;
    int rank;
  };
  // The last rank's begin of the exchange that this rank waits for; none if it is not known.
  std::optional<Last> last(int rank, const TraceSpan& wait) const {
    const std::string key = key_of(wait);
    const auto own = by_name_[static_cast<size_t>(rank)].find(key);
    if (own == by_name_[static_cast<size_t>(rank)].end()) return std::nullopt;
    const auto after = std::ranges::upper_bound(own->second, wait.begin, {}, &TraceSpan::begin);
    if (after == own->second.begin() || (after - 1)->end < wait.end) return std::nullopt;
    const auto number = static_cast<size_t>(after - own->second.begin() - 1);
    Last last{own->second[number].begin, rank};
    for (size_t peer = static_cast<size_t>(rank % of_replica_); peer < by_name_.size(); peer += of_replica_) {
      const auto of_peer = by_name_[peer].find(key);
      if (of_peer == by_name_[peer].end() || of_peer->second.size() <= number) continue;
      const int64_t begin = of_peer->second[number].begin;
      if (begin > last.time) last = {begin, static_cast<int>(peer)};
    }
    return last;
  }

 private:
  // Waits for a unit are for a gather or a reduction, which has a span of its own; others are the exchange themselves.
  static std::string key_of(const TraceSpan& span) { return span.name; }
  static bool is_exchange(const TraceSpan& span) {
    if (span.kind == "gather" || span.kind == "reduce") return true;
    if (span.kind == "program") return span.name == kLossesSpan;
    return span.kind == "waits" && unit_of(span.name, {"gather", "reduce"}) == kAllUnits;
  }

  size_t of_replica_;
  std::vector<std::map<std::string, std::vector<TraceSpan>>> by_name_;  // by rank
};

void add_wait(const Begins& begins, int rank, const TraceSpan& wait, Claims& claims) {
  const std::string unit = unit_of(wait.name, {"gather", "reduce", kReadersWait});
  if (wait.name.starts_with(kReadersWait)) {
    claims.push_back({wait.begin, wait.end, &TimeShares::waiting, unit});
    return;
  }
  const auto last = begins.last(rank, wait);
  const int64_t split = last ? std::clamp(last->time, wait.begin, wait.end) : wait.begin;
  if (split > wait.begin) claims.push_back({wait.begin, split, &TimeShares::waiting, unit, last->rank});
  if (split < wait.end) claims.push_back({split, wait.end, &TimeShares::exposed, unit});
}

// The stage of "2F0", a pass; empty for other actions of a pipeline.
std::string stage_of(const std::string& action) {
  const size_t pass = action.find_first_not_of("0123456789");
  const bool is_pass = pass != std::string::npos && pass > 0 && pass + 1 < action.size() &&
                       std::string_view("FBIW").find(action[pass]) != std::string_view::npos &&
                       action.find_first_not_of("0123456789", pass + 1) == std::string::npos;
  return is_pass ? "stage " + action.substr(0, pass) : "";
}

// In the order in which they count; those of one kind do not overlap.
std::vector<Claims> claims_of(const Begins& begins, int rank, const RankTrace& trace) {
  std::vector<Claims> claims(4);
  for (const TraceSpan& span : trace.spans) {
    if (span.kind == "waits" || span.name == kLossesSpan) {
      add_wait(begins, rank, span, claims[0]);
    } else if (span.kind == "pipeline idle") {
      claims[1].push_back({span.begin, span.end, &TimeShares::idle, kAllUnits});
    } else if (span.kind == "pipeline") {  // a pass computes without units as well: products of weight gradients
      const std::string stage = stage_of(span.name);
      if (!stage.empty()) claims[3].push_back({span.begin, span.end, &TimeShares::computation, stage});
    } else if (span.name == kReadingSpan) {  // the host waits for its GPU
      claims[2].push_back({span.begin, span.end, &TimeShares::computation, kAllUnits});
    } else if (span.kind == "forward" || span.kind == "backward" || span.kind == "optimizer") {
      claims[2].push_back({span.begin, span.end, &TimeShares::computation,
                           unit_of(span.name, {"forward", "backward", "update", "publish"})});
    }
  }
  return claims;
}

// The claim that counts at a moment; moments come in order.
class Moments {
 public:
  explicit Moments(const std::vector<Claims>& claims) : claims_(claims), at_(claims.size()) {}

  const Claim* at(int64_t time) {
    for (size_t kind = 0; kind < claims_.size(); ++kind) {
      const Claims& claims = claims_[kind];
      size_t& i = at_[kind];
      while (i < claims.size() && claims[i].end <= time) ++i;
      if (i < claims.size() && claims[i].begin <= time) return &claims[i];
    }
    return nullptr;
  }

 private:
  const std::vector<Claims>& claims_;
  std::vector<size_t> at_;
};

std::vector<int64_t> moments_of(const std::vector<Claims>& claims, const TraceSpan& step) {
  std::vector<int64_t> cuts{step.begin, step.end};
  for (const Claims& kind : claims) {
    for (const Claim& claim : kind) {
      for (const int64_t time : {claim.begin, claim.end}) {
        if (time > step.begin && time < step.end) cuts.push_back(time);
      }
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  return cuts;
}

class Sums {
 public:
  explicit Sums(StepShares& shares) : shares_(shares) {}

  void add(TimeShares& of_rank, const Claim* claim, int64_t nanoseconds) {
    const double seconds = static_cast<double>(nanoseconds) * kNanosecond;
    of_rank.*(claim == nullptr ? &TimeShares::others : claim->share) += seconds;
    if (claim == nullptr) return;
    unit(claim->unit).*(claim->share) += seconds;
    if (claim->waited_for >= 0) shares_.waited_for[static_cast<size_t>(claim->waited_for)] += seconds;
  }

 private:
  TimeShares& unit(const std::string& name) {
    const auto [found, is_new] = places_.emplace(name, shares_.units.size());
    if (is_new) shares_.units.push_back({name, {}});
    return shares_.units[found->second].time;
  }

  StepShares& shares_;
  std::map<std::string, size_t> places_;
};

std::vector<TraceSpan> steps_of(const RankTrace& trace) {
  std::vector<TraceSpan> steps = trace.of_kind("program");
  std::erase_if(steps, [](const TraceSpan& span) { return !span.name.starts_with(kStepSpan); });
  return steps;
}

}  // namespace

void TimeShares::add(const TimeShares& more) {
  computation += more.computation;
  exposed += more.exposed;
  waiting += more.waiting;
  idle += more.idle;
  others += more.others;
}

TimeShares TimeShares::divided_by(double divisor) const {
  return {computation / divisor, exposed / divisor, waiting / divisor, idle / divisor, others / divisor};
}

StepShares step_shares(const std::vector<RankTrace>& ranks, int ranks_of_replica) {
  StepShares shares;
  shares.waited_for.resize(ranks.size());
  const Begins begins(ranks, ranks_of_replica);
  Sums sums(shares);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<Claims> claims = claims_of(begins, static_cast<int>(rank), ranks[rank]);
    const std::vector<TraceSpan> steps = steps_of(ranks[rank]);
    shares.steps = static_cast<int64_t>(steps.size());
    shares.ranks.push_back({"rank " + std::to_string(rank), {}});
    Moments moments(claims);
    for (const TraceSpan& step : steps) {
      const std::vector<int64_t> cuts = moments_of(claims, step);
      for (size_t i = 0; i + 1 < cuts.size(); ++i)
        sums.add(shares.ranks.back().time, moments.at(cuts[i]), cuts[i + 1] - cuts[i]);
    }
  }
  const double steps = static_cast<double>(std::max<int64_t>(1, shares.steps));
  for (NamedShares& rank : shares.ranks) {
    rank.time = rank.time.divided_by(steps);
    shares.mean.add(rank.time);
  }
  const double count = static_cast<double>(std::max<size_t>(1, ranks.size()));
  shares.mean = shares.mean.divided_by(count);
  for (NamedShares& unit : shares.units) unit.time = unit.time.divided_by(steps * count);
  for (double& seconds : shares.waited_for) seconds /= steps;
  return shares;
}

}  // namespace trainer
