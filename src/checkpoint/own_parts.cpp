#include "checkpoint/own_parts.h"

#include <algorithm>
#include <utility>

namespace fsdp::checkpoint {

namespace {

struct Held {
  std::map<std::string, std::vector<Box>> boxes;  // by parameter
  std::set<std::string> buffers;
};

void add(const Manifest& manifest, Held& held) {
  for (const Manifest::Parameter& parameter : manifest.parameters) {
    std::vector<Box>& boxes = held.boxes[parameter.name];
    for (const Manifest::Part& part : parameter.parts) {
      if (std::ranges::find(boxes, part.placement.box) == boxes.end()) boxes.push_back(part.placement.box);
    }
  }
  for (const Manifest::Buffer& buffer : manifest.buffers) held.buffers.insert(buffer.name);
}

OwnParts keep_own(Manifest& manifest, const Held& before) {
  OwnParts own;
  for (Manifest::Parameter& parameter : manifest.parameters) {
    const auto held = before.boxes.find(parameter.name);
    std::vector<Segment>& segments = own.segments[parameter.name];
    for (const Manifest::Part& part : parameter.parts) {
      const Segment whole{.placement = part.placement, .at = part.offset};
      const auto kept = held == before.boxes.end() ? std::vector{whole} : outside(whole, held->second);
      segments.insert(segments.end(), kept.begin(), kept.end());
    }
    parameter.parts.clear();
    int64_t offset = 0;
    for (const Segment& segment : segments) {
      parameter.parts.push_back({.offset = offset, .placement = segment.placement});
      offset += segment.placement.numel();
    }
  }
  std::erase_if(manifest.buffers, [&](const auto& buffer) { return before.buffers.contains(buffer.name); });
  for (const Manifest::Buffer& buffer : manifest.buffers) own.buffers.insert(buffer.name);
  return own;
}

}  // namespace

std::vector<OwnParts> keep_own_parts(std::vector<HeldParts>& all) {
  std::vector<OwnParts> own(all.size());
  std::map<int, std::vector<size_t>> by_leader;
  for (size_t i = 0; i < all.size(); ++i) by_leader[all[i].leader].push_back(i);
  Held before;
  for (const auto& [leader, ones] : by_leader) {
    Held here;
    for (const size_t i : ones) add(all[i].contribution.manifest, here);
    for (const size_t i : ones) own[i] = keep_own(all[i].contribution.manifest, before);
    for (auto& [name, boxes] : here.boxes) {
      std::vector<Box>& held = before.boxes[name];
      held.insert(held.end(), boxes.begin(), boxes.end());
    }
    before.buffers.merge(here.buffers);
  }
  return own;
}

}  // namespace fsdp::checkpoint
