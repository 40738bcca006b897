#include "checkpoint/joined_manifest.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace fsdp::checkpoint {

namespace {

using Parameter = Manifest::Parameter;
using Part = Manifest::Part;

bool has_first_element(const Parameter& parameter) {
  return std::ranges::any_of(parameter.parts, [](const Part& part) {
    const auto begins = [](const layout::Range& range) { return range.begin == 0; };
    return part.placement.range.begin == 0 && std::ranges::all_of(part.placement.box, begins);
  });
}

// By boxes, in these by ranges, and of equal parts by files.
bool lies_before(const Part& a, const Part& b) {
  const auto order = std::lexicographical_compare_three_way(
      a.placement.box.begin(), a.placement.box.end(), b.placement.box.begin(), b.placement.box.end(),
      [](const layout::Range& one, const layout::Range& other) {
        return std::pair(one.begin, one.end) <=> std::pair(other.begin, other.end);
      });
  if (order != 0) return order < 0;
  return std::pair(a.placement.range.begin, a.file) < std::pair(b.placement.range.begin, b.file);
}

class Joining {
 public:
  void add(const Contribution& one, int file) {
    for (const Parameter& parameter : one.manifest.parameters) {
      const auto [number, is_new] = numbers_.try_emplace(parameter.name, manifest_.parameters.size());
      if (is_new) manifest_.parameters.push_back(described(parameter));
      Parameter& of = manifest_.parameters[number->second];
      FSDP_CHECK(of.shape == parameter.shape && of.strides == parameter.strides,
                 "{} has shape {} and strides {} on rank {}, expected {} and {} as on the ranks before", of.name,
                 parameter.shape, parameter.strides, one.rank, of.shape, of.strides);
      if (has_first_element(parameter)) of.tensors = parameter.tensors, of.scalars = parameter.scalars;
      for (Part part : parameter.parts) part.file = file, of.parts.push_back(std::move(part));
    }
    for (Manifest::Buffer buffer : one.manifest.buffers) {
      if (!buffers_.emplace(buffer.name, 0).second) continue;  // each rank has the same
      buffer.file = file;
      manifest_.buffers.push_back(std::move(buffer));
    }
  }

  Manifest result() && {
    for (Parameter& parameter : manifest_.parameters) put_in_order(parameter);
    return std::move(manifest_);
  }
  Manifest without_parts() && {
    for (Parameter& parameter : manifest_.parameters) parameter.parts.clear();
    return std::move(manifest_);
  }

 private:
  static Parameter described(Parameter parameter) {
    parameter.parts.clear();
    return parameter;
  }

  static void put_in_order(Parameter& parameter) {
    std::vector<Part>& parts = parameter.parts;
    if (!std::ranges::is_sorted(parts, lies_before)) std::ranges::sort(parts, lies_before);
    const auto same = [](const Part& a, const Part& b) { return a.placement == b.placement; };
    parts.erase(std::ranges::unique(parts, same).begin(), parts.end());
    std::vector<const layout::Placement*> placements;
    for (const Part& part : parts) placements.push_back(&part.placement);
    const layout::TilingProblem problem = layout::tiling_problem(parameter.shape, placements);
    FSDP_CHECK(problem.expected.empty(),
               "the ranks' parts of {} do not make it up: at part {}, expected {}. If other ranks hold the rest, set "
               "Checkpoint::mesh.",
               parameter.name, problem.placement, problem.expected);
  }

  Manifest manifest_;
  std::map<std::string, size_t> numbers_;  // of parameters
  std::map<std::string, int> buffers_;
};

}  // namespace

Manifest described(const std::vector<Contribution>& all) {
  Joining joining;
  for (const Contribution& one : all) joining.add(one, 0);
  return std::move(joining).without_parts();
}

Manifest joined(std::vector<Contribution> all, const std::vector<WrittenFile>& files, int world_size) {
  Joining joining;
  for (size_t i = 0; i < all.size(); ++i) joining.add(all[i], static_cast<int>(i));
  Manifest manifest = std::move(joining).result();
  manifest.files = files;
  for (const Contribution& one : all) manifest.writers.push_back(one.rank);
  manifest.world_size = world_size;
  manifest.shards = all.back().rank + 1;
  manifest.step = all.front().manifest.step;
  manifest.notes = std::move(all.front().manifest.notes);
  manifest.generators = std::move(all.front().manifest.generators);
  return manifest;
}

}  // namespace fsdp::checkpoint
