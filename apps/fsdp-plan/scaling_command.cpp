#include "fsdp-plan/scaling_command.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "console/paragraph.h"
#include "console/units.h"
#include "fsdp-plan/scaling_arguments.h"
#include "fsdp-plan/scaling_json.h"
#include "fsdp-plan/scaling_sentences.h"
#include "models/model_config.h"
#include "planning/plan_text.h"

namespace planner {

namespace {

using trainer::CurvePoint;
using trainer::ScalingCurve;

constexpr size_t kPointsShown = 6, kSentenceIndent = 4;

// So many of `count` places, the first and the last among them, at equal distances from the end.
std::vector<size_t> shown_places(size_t count) {
  const size_t stride = count <= kPointsShown ? 1 : (count - 2) / (kPointsShown - 1) + 1;
  std::vector<size_t> places;
  for (size_t place = 0; place + 1 < count; place += stride) places.push_back(place);
  if (places.size() == kPointsShown) places.pop_back();
  places.push_back(count - 1);
  return places;
}

std::string table(const char* name, const std::vector<ScalingCurve>& curves,
                  const std::function<int64_t(const CurvePoint&)>& column) {
  const std::vector<size_t> places = shown_places(curves.front().points.size());
  std::string text = fmt::format("  {:<20}", name);
  for (const size_t place : places)
    text += fmt::format("{:>9}", trainer::grouped(column(curves.front().points[place])));
  text += "\n";
  for (const ScalingCurve& curve : curves) {
    text += fmt::format("  {:<20}", curve.strategy);
    for (const size_t place : places) {
      const CurvePoint& point = curve.points[place];
      text += fmt::format("{:>8}{}", rate_text(point), point.fits ? ' ' : '*');
    }
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  return text;
}

// Texts by the names of the curves that have it.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;

void add_text(NamedTexts& texts, const std::string& name, std::string text) {
  if (!texts.empty() && texts.back().second == text) {
    texts.back().first += ", " + name;
  } else {
    texts.emplace_back(name, std::move(text));
  }
}

std::string named_text(const NamedTexts& texts) {
  std::string all;
  for (const auto& [name, text] : texts) all += fmt::format("  {}\n{}", name, text);
  return all;
}

// Failures are those of the ranks, whatever the strategy: they stand at the end, once.
std::string bends_text(const std::vector<ScalingCurve>& curves, const fsdp::plan::ClusterFacts& cluster, size_t width) {
  NamedTexts texts;
  std::string of_failures;
  for (const ScalingCurve& curve : curves) {
    std::string text;
    for (const fsdp::plan::Bend& bend : curve.bends) {
      const std::string of_bend = trainer::paragraph("", bend_text(curve, bend, cluster), kSentenceIndent, width);
      (bend.part == fsdp::plan::TimePart::Failures ? of_failures = "" : text) += of_bend;
    }
    add_text(texts, curve.strategy, text + trainer::paragraph("", ends_text(curve), kSentenceIndent, width));
  }
  return named_text(texts) + (of_failures.empty() ? "" : "  all\n" + of_failures);
}

std::string hosts_texts(const std::vector<ScalingCurve>& curves, size_t width) {
  NamedTexts texts;
  for (const ScalingCurve& curve : curves)
    add_text(texts, curve.strategy, trainer::paragraph("", hosts_text(curve), kSentenceIndent, width));
  return named_text(texts);
}

bool all_fit(const std::vector<ScalingCurve>& curves) {
  for (const ScalingCurve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      if (!point.fits) return false;
    }
  }
  return true;
}

std::string title(const ScalingArguments& arguments) {
  const PlanArguments& plan = arguments.plan;
  const trainer::RunOptions& options = plan.options;
  const std::string batch =
      arguments.settings.global_batch
          ? trainer::counted(*arguments.settings.global_batch, "sequence") + " per step"
          : fmt::format("{} per rank and step", trainer::counted(options.batch * options.micro_batches, "sequence"));
  return fmt::format("{}: {} parameters\n{} with {} ranks on each host, {}, {}, {} of {} tokens\n", plan.model,
                     trainer::grouped(models::parameter_numel(options.model)), plan.target.hardware.name,
                     plan.target.hardware.ranks_per_host, plan.target.engine, options.param_dtype, batch,
                     trainer::grouped(options.model.context));
}

std::string scaling_text(const ScalingArguments& arguments, const std::vector<ScalingCurve>& by_ranks,
                         const std::vector<ScalingCurve>& by_hosts, size_t width) {
  const std::string memory = trainer::plan_bytes(arguments.plan.target.memory);
  const std::string devices = trainer::counted(arguments.settings.devices, "device");
  std::string text = title(arguments) + "\nTFLOP/s of the model per rank, by the number of ranks\n";
  text += table("strategy", by_ranks, [](const CurvePoint& point) { return point.job.ranks; });
  if (!all_fit(by_ranks) || !all_fit(by_hosts)) text += fmt::format("  * does not fit into {}\n", memory);
  text += "\nWhere the curves bend\n" + bends_text(by_ranks, arguments.settings.cluster, width);
  text += fmt::format("\nFew large hosts or many small ones: {}, by the ranks on each host\n", devices);
  text += table("strategy", by_hosts, [](const CurvePoint& point) { return point.ranks_per_host; });
  return text + "\n" + hosts_texts(by_hosts, width);
}

}  // namespace

ModelPlan scaling_plan(const std::vector<std::string>& words, size_t width) {
  const ScalingArguments arguments = read_scaling(words);
  if (!arguments.problems.empty()) return {.text = "", .problems = arguments.problems};
  std::vector<ScalingCurve> by_ranks, by_hosts;
  for (const std::string& strategy : arguments.strategies) {
    trainer::RunOptions options = arguments.plan.options;
    options.strategy = strategy;
    by_ranks.push_back(scaling_curve(arguments.plan.target, options, arguments.settings));
    by_hosts.push_back(host_curve(arguments.plan.target, options, arguments.settings));
  }
  if (arguments.plan.as_json) return {.text = scaling_json(arguments, by_ranks, by_hosts).dump(2) + "\n"};
  return {.text = scaling_text(arguments, by_ranks, by_hosts, width)};
}

}  // namespace planner
