#include "fsdp-plan/scaling_sentences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "console/units.h"
#include "fsdp-plan/plan_rows.h"

namespace planner {

namespace {

using fsdp::plan::Bend;
using fsdp::plan::ClusterFacts;
using fsdp::plan::Collective;
using fsdp::plan::TimePart;
using trainer::counted;
using trainer::CurvePoint;
using trainer::grouped;
using trainer::LayerCollectives;
using trainer::ScalingCurve;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
double tflops(const CurvePoint& point) { return point.job.rate() / 1e12; }

const char* collective_name(Collective kind) {
  switch (kind) {
    case Collective::AllGather:
      return "all-gather";
    case Collective::ReduceScatter:
      return "reduce-scatter";
    case Collective::AllReduce:
      return "all-reduce";
  }
  return "";
}

// "an all-gather over 2,048 ranks on 256 hosts"
std::string collective_text(const fsdp::plan::UnitCollective& collective) {
  const char* name = collective_name(collective.kind);
  const std::string what = collective.count > 1 ? fmt::format("{:.0f} {}s", collective.count, name)
                           : collective.kind == Collective::ReduceScatter ? fmt::format("a {}", name)
                                                                          : fmt::format("an {}", name);
  return fmt::format("{} over {} on {}", what, counted(collective.ring.ranks, "rank"),
                     counted(collective.ring.hosts, "host"));
}

std::string layer_text(const LayerCollectives& layer) {
  if (layer.all.empty()) return "";
  std::vector<std::string> all;
  for (const fsdp::plan::UnitCollective& one : layer.all) all.push_back(collective_text(one));
  const bool is_latency = layer.latency > layer.seconds / 2;
  const double share = layer.latency / layer.seconds;
  return fmt::format(" A layer's {} computes for {}; beside it {} {} {}. {} of that is {}.",
                     layer.is_forward ? "forward" : "backward", seconds_text(layer.compute), fmt::join(all, " and "),
                     all.size() == 1 && layer.all.front().count == 1 ? "takes" : "take", seconds_text(layer.seconds),
                     percent(is_latency ? share : 1 - share),
                     is_latency ? "latency, which grows with the ranks" : "transfer of bytes");
}

std::string why_slowest(const CurvePoint& point, const ClusterFacts& cluster) {
  return fmt::format(" With a spread of {} the slowest of {} computes {} longer than the slowest of {}.",
                     percent(cluster.spread), counted(point.job.ranks, "rank"),
                     percent(point.job.wait / point.job.step.compute), cluster.measured_ranks);
}

std::string why_failures(const CurvePoint& point, const ClusterFacts& cluster) {
  const fsdp::plan::ScalingPoint& job = point.job;
  return fmt::format(
      " A failure every {} costs a restart of {}, which is {} of that time. A checkpoint of {} every {} loses least.",
      trainer::rough_duration(job.between_failures), trainer::rough_duration(cluster.restart),
      percent(cluster.restart / job.between_failures), trainer::rough_duration(cluster.save),
      trainer::rough_duration(job.save_interval));
}

std::string why(const CurvePoint& point, TimePart part, const ClusterFacts& cluster) {
  switch (part) {
    case TimePart::Slowdown:
    case TimePart::Communication:
      return layer_text(point.layer);
    case TimePart::SlowestRank:
      return why_slowest(point, cluster);
    case TimePart::Failures:
      return why_failures(point, cluster);
    case TimePart::HostIdle:
      return " The host launches kernels more slowly than the device runs them.";
    case TimePart::Compute:
      break;
  }
  return "";
}

}  // namespace

std::string part_name(TimePart part) {
  switch (part) {
    case TimePart::Compute:
      return "computation";
    case TimePart::Slowdown:
      return "slowdown beside collectives";
    case TimePart::Communication:
      return "waits for collectives";
    case TimePart::HostIdle:
      return "waits for the host";
    case TimePart::SlowestRank:
      return "waits for the slowest rank";
    case TimePart::Failures:
      return "failures and checkpoints";
  }
  return "";
}

std::string bend_text(const ScalingCurve& curve, const Bend& bend, const ClusterFacts& cluster) {
  const CurvePoint& point = curve.points[bend.point];
  const std::string ranks = grouped(point.job.ranks), share = percent(point.job.share(bend.part));
  std::string text;
  if (bend.point == 0) {
    text = fmt::format("At {} ranks already, the share of {} is {} of the time.", ranks, part_name(bend.part), share);
  } else {
    const CurvePoint& before = curve.points[bend.point - 1];
    text = fmt::format("At {} ranks, the share of {} passes {:.0f} % of the time: {}, after {} at {}.", ranks,
                       part_name(bend.part), 100 * trainer::kNoticed, share, percent(before.job.share(bend.part)),
                       grouped(before.job.ranks));
  }
  return text + why(point, bend.part, cluster);
}

std::string rate_text(const CurvePoint& point) {
  constexpr double kSmall = 10;
  return fmt::format("{:.{}f}", tflops(point), tflops(point) < kSmall ? 1 : 0);
}

std::string ends_text(const ScalingCurve& curve) {
  const CurvePoint &first = curve.points.front(), &last = curve.points.back();
  std::vector<std::string> parts;
  constexpr double kShown = 0.005;
  for (const TimePart part : fsdp::plan::kTimeParts) {
    if (last.job.share(part) >= kShown)
      parts.push_back(fmt::format("{} {}", part_name(part), percent(last.job.share(part))));
  }
  std::string text =
      fmt::format("{} TFLOP/s at {}, {} at {}. The time there: {}.", rate_text(first), counted(first.job.ranks, "rank"),
                  rate_text(last), grouped(last.job.ranks), fmt::join(parts, ", "));
  const double slower = last.job.step.compute / last.job.flops * first.job.flops / first.job.step.compute - 1;
  if (last.job.flops < first.job.flops && slower >= kShown)
    text += fmt::format(" With fewer sequences per rank, an operation of the model takes {} longer than at {}.",
                        percent(slower), counted(first.job.ranks, "rank"));
  return text;
}

std::string hosts_text(const ScalingCurve& curve) {
  const auto [worst, best] = std::ranges::minmax_element(curve.points, {}, tflops);
  if (tflops(*best) == tflops(*worst)) return "The size of the hosts makes no difference.";
  const auto part = std::ranges::max_element(fsdp::plan::kTimeParts, {}, [&](TimePart part) {
    return part == TimePart::Compute ? -1.0 : worst->job.share(part) - best->job.share(part);
  });
  std::string text = fmt::format(
      "{} TFLOP/s with {} on each host, {} with {}. Most of the difference lies in {}: {} of the time, and {} with {}.",
      rate_text(*best), counted(best->ranks_per_host, "rank"), rate_text(*worst), grouped(worst->ranks_per_host),
      part_name(*part), percent(best->job.share(*part)), percent(worst->job.share(*part)),
      grouped(worst->ranks_per_host));
  if (*part == TimePart::Communication || *part == TimePart::Slowdown) text += layer_text(worst->layer);
  return text;
}

}  // namespace planner
