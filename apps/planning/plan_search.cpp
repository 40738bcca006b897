#include "planning/plan_search.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "planning/least_time.h"
#include "planning/plan_text.h"
#include "planning/planned_time.h"

namespace trainer {

namespace {

void check(const PlanTarget& target, const RunOptions& options) {
  if (target.engine == "megatron")
    throw fsdp::Error("search: the memory of Megatron's schedules is not searched. Leave out --engine megatron.");
  if (options.offloads() || options.cpu_offload || options.offload_activations)
    throw fsdp::Error(
        "search: the time of runs that offload is not simulated. Leave out --offload, --cpu-offload and "
        "--offload-activations.");
  if (options.activation_memory)
    throw fsdp::Error("search: the time under a limit of activations is not simulated. Leave out --activation-memory.");
  if (options.is_divided() && target.engine != "libfsdp")
    throw fsdp::Error(
        fmt::format("search: the time of {} on a mesh is not simulated. Leave out --pipeline-parallel and "
                    "--tensor-parallel, or --engine.",
                    target.engine));
  if (!has_schedule(target, options))
    throw fsdp::Error(
        fmt::format("search: the time of such a run in {} is not known for hardware '{}'. On CPUs take a --param-dtype "
                    "that its file has, and leave out --hosts, --pipeline-parallel and --tensor-parallel.",
                    options.param_dtype, target.hardware.name));
}

class PlanSearch {
 public:
  PlanSearch(const PlanTarget& target, const RunOptions& options, const SearchWish& wish)
      : target_(target), options_(options), wish_(wish), least_(target, options) {}

  SearchResult run() {
    struct Candidate {
      SearchSetting setting;
      double least = 0;
      size_t place = 0;  // in the space
    };
    std::vector<Candidate> all;
    for (SearchSetting& setting : search_space(target_, options_, wish_.ranks)) {
      if (wish_.keeps_batches && !has_given_batches(setting)) continue;
      const double least = worth(least_.seconds(setting), setting);
      all.push_back({std::move(setting), least, all.size()});
    }
    if (all.empty())
      throw fsdp::Error(
          "search: no setting has the tokens of this step with the options that are given. Leave out those of the "
          "pipeline, or take another --batch.");
    std::ranges::sort(all, {}, [](const Candidate& one) { return std::pair(one.least, one.place); });
    result_.settings = all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].least > limit_) {
        result_.left_out = all.size() - i;
        break;
      }
      try_setting(all[i].setting);
    }
    sort();
    for (TriedSetting& tried : result_.too_large) {
      const RunOptions run = tried.setting.applied_to(options_);
      tried.numbers = plan_numbers(target_for(run), run);
    }
    return std::move(result_);
  }

 private:
  bool has_given_batches(const SearchSetting& setting) const {
    const std::set<std::string>& given = options_.chosen.flags;
    return (!given.contains("--batch") || setting.batch == options_.batch) &&
           (!given.contains("--micro-batches") || setting.micro_batches == options_.micro_batches);
  }

  double worth(double seconds, const SearchSetting& setting) const {
    return wish_.goal == SearchGoal::Time ? seconds : seconds * static_cast<double>(setting.ranks);
  }

  PlanTarget target_for(const RunOptions& run) const {
    PlanTarget target = target_;
    target.hosts = hosts_of_run(run, target.hardware);
    return target;
  }

  void try_setting(const SearchSetting& setting) {
    const MemoryKey passes = {setting.pipeline,        setting.tensor, setting.has_slices,    setting.schedule,
                              setting.stages_per_rank, setting.batch,  setting.micro_batches, setting.recomputation};
    double& least_memory = least_memory_[passes];
    if (least_memory > target_.memory) {
      ++result_.unfit;
      return;
    }
    const RunOptions run = setting.applied_to(options_);
    const PlanTarget target = target_for(run);
    TriedSetting tried{.options = setting.text(options_), .name = setting.name(options_), .setting = setting};
    tried.numbers.memory = memory_of_plan(target, run);
    // Whatever the strategy, activations stay.
    least_memory = tried.numbers.memory.activations + tried.numbers.memory.others;
    if (!plan_fits(target, run, tried.numbers.memory)) {
      ++result_.unfit;
      result_.too_large.push_back(std::move(tried));
      return;
    }
    tried.numbers = plan_numbers(target, run);
    add_time(worth(tried.numbers.time.value().step, setting));
    result_.fitting.push_back(std::move(tried));
  }

  // The limit is that of the last setting that is kept. Simulated times are rounded.
  void add_time(double time) {
    constexpr double kRounding = 1e-6;
    best_.insert(std::ranges::upper_bound(best_, time), time);
    if (wish_.kept == 0 || best_.size() < wish_.kept) return;
    best_.resize(wish_.kept);
    limit_ = best_.back() * (1 + kRounding);
  }

  void sort() {
    std::ranges::sort(result_.fitting, {}, [&](const TriedSetting& tried) {
      return std::tuple(worth(tried.numbers.time->step, tried.setting), tried.numbers.memory.peak, tried.options);
    });
    std::ranges::sort(result_.too_large, {},
                      [](const TriedSetting& tried) { return std::pair(tried.numbers.memory.peak, tried.options); });
    if (wish_.kept > 0 && result_.fitting.size() > wish_.kept) {
      result_.left_out += result_.fitting.size() - wish_.kept;
      result_.fitting.resize(wish_.kept);
    }
    if (wish_.kept_too_large > 0 && result_.too_large.size() > wish_.kept_too_large)
      result_.too_large.resize(wish_.kept_too_large);
  }

  // All that activations depend on.
  using MemoryKey = std::tuple<int64_t, int64_t, bool, std::string, int64_t, int64_t, int64_t, std::string>;

  const PlanTarget& target_;
  const RunOptions& options_;
  const SearchWish& wish_;
  LeastTimes least_;
  std::map<MemoryKey, double> least_memory_;  // bytes
  SearchResult result_;
  std::vector<double> best_;
  double limit_ = std::numeric_limits<double>::infinity();
};

}  // namespace

SearchResult search(const PlanTarget& target, const RunOptions& options, SearchWish wish) {
  check(target, options);
  if (wish.ranks.empty()) wish.ranks = {options.ranks};
  return PlanSearch(target, options, wish).run();
}

std::string why_worse(const TriedSetting& setting, const TriedSetting& best, SearchGoal goal) {
  const PlannedTime own = setting.numbers.time.value(), other = best.numbers.time.value();
  constexpr double kAlike = 5e-4;
  if (goal == SearchGoal::Money && setting.setting.ranks != best.setting.ranks) {
    const double dearer = setting.device_seconds() / best.device_seconds() - 1;
    if (dearer >= kAlike)
      return fmt::format("{:.1f} % dearer: a step of {:.3g} s on {} ranks, not {:.3g} s on {}.", 100 * dearer, own.step,
                         setting.setting.ranks, other.step, best.setting.ranks);
  }
  const double slower = own.step / other.step - 1;
  if (slower < kAlike) {
    const double more = setting.numbers.memory.peak - best.numbers.memory.peak;
    return more < 1 ? "As fast, with as much memory." : fmt::format("As fast, and {} more memory.", plan_bytes(more));
  }
  const bool has_mesh = setting.setting.pipeline > 1 || best.setting.pipeline > 1;
  const std::pair<double, const char*> parts[] = {
      {own.compute - other.compute, "computation"},
      {own.exposed_communication - other.exposed_communication, "exposed communication"},
      {own.idle - other.idle, has_mesh ? "waits for other stages" : "waits for the host"}};
  const auto& [more, name] = *std::ranges::max_element(parts, {}, [](const auto& part) { return part.first; });
  return fmt::format("{:.1f} % slower: {:.1f} ms more {}.", 100 * slower, 1000 * more, name);
}

}  // namespace trainer
