#include "fsdp-plan/scaling_json.h"

#include <algorithm>
#include <cmath>

#include "fsdp-plan/scaling_sentences.h"

namespace planner {

namespace {

using trainer::CurvePoint;
using trainer::ScalingCurve;

// JSON has no infinite numbers.
nlohmann::json finite(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

// "waits_for_collectives"
std::string part_key(fsdp::plan::TimePart part) {
  std::string key = part_name(part);
  std::ranges::replace(key, ' ', '_');
  return key;
}

nlohmann::json point_json(const CurvePoint& point) {
  const fsdp::plan::ScalingPoint& job = point.job;
  nlohmann::json time;
  for (const fsdp::plan::TimePart part : fsdp::plan::kTimeParts) time[part_key(part)] = job.share(part);
  return {{"ranks", job.ranks},
          {"hosts", job.hosts},
          {"ranks_per_host", point.ranks_per_host},
          {"batch", point.batch},
          {"micro_batches", point.micro_batches},
          {"fits", point.fits},
          {"tflops", job.rate() / 1e12},
          {"step", finite(job.seconds())},
          {"time", std::move(time)},
          {"useful", job.useful},
          {"between_failures", finite(job.between_failures)},
          {"save_interval", finite(job.save_interval)},
          {"layer",
           {{"pass", point.layer.is_forward ? "forward" : "backward"},
            {"compute", point.layer.compute},
            {"collectives", point.layer.seconds},
            {"latency", point.layer.latency}}}};
}

nlohmann::json points_json(const ScalingCurve& curve) {
  nlohmann::json points = nlohmann::json::array();
  for (const CurvePoint& point : curve.points) points.push_back(point_json(point));
  return points;
}

nlohmann::json bends_json(const ScalingCurve& curve, const fsdp::plan::ClusterFacts& cluster) {
  nlohmann::json bends = nlohmann::json::array();
  for (const fsdp::plan::Bend& bend : curve.bends) {
    bends.push_back({{"part", part_key(bend.part)},
                     {"ranks", curve.points[bend.point].job.ranks},
                     {"share", curve.points[bend.point].job.share(bend.part)},
                     {"text", bend_text(curve, bend, cluster)}});
  }
  return bends;
}

}  // namespace

nlohmann::json scaling_json(const ScalingArguments& arguments, const std::vector<ScalingCurve>& by_ranks,
                            const std::vector<ScalingCurve>& by_hosts) {
  const trainer::ScalingSettings& settings = arguments.settings;
  const fsdp::plan::ClusterFacts& cluster = settings.cluster;
  nlohmann::json json = {{"model", arguments.plan.model},
                         {"hardware", arguments.plan.target.hardware.name},
                         {"engine", arguments.plan.target.engine},
                         {"global_batch", nullptr},
                         {"devices", settings.devices},
                         {"noticed", trainer::kNoticed},
                         {"cluster",
                          {{"spread", cluster.spread},
                           {"measured_ranks", cluster.measured_ranks},
                           {"rank_failures", finite(cluster.rank_failures)},
                           {"host_failures", finite(cluster.host_failures)},
                           {"save", cluster.save},
                           {"restart", cluster.restart}}},
                         {"by_ranks", nlohmann::json::array()},
                         {"by_hosts", nlohmann::json::array()}};
  if (settings.global_batch) json["global_batch"] = *settings.global_batch;
  for (const ScalingCurve& curve : by_ranks) {
    json["by_ranks"].push_back({{"strategy", curve.strategy},
                                {"points", points_json(curve)},
                                {"bends", bends_json(curve, cluster)},
                                {"text", ends_text(curve)}});
  }
  for (const ScalingCurve& curve : by_hosts)
    json["by_hosts"].push_back(
        {{"strategy", curve.strategy}, {"points", points_json(curve)}, {"text", hosts_text(curve)}});
  return json;
}

}  // namespace planner
