#include "checkpoint/manifest_parts.h"

#include <algorithm>
#include <utility>

namespace fsdp::checkpoint {

namespace {

using files::OrderedJson;
using layout::Placement;
using layout::Range;

int64_t numel_in(const Member& member, const Manifest::Parameter& parameter) {
  const std::optional<int64_t> numel = numel_of(parameter.shape);
  if (!numel) member["shape"].fail("as many elements as memory can hold");
  return *numel;
}

// A box is of rows and columns: it is divided only where the parameter lies in memory row by row.
bool lies_in_rows(const Manifest::Parameter& parameter) {
  int64_t expected = 1;
  if (parameter.strides.size() != parameter.shape.size()) return false;
  for (size_t i = parameter.shape.size(); i-- > 0;) {
    if (parameter.shape[i] != 1 && parameter.strides[i] != expected) return false;
    expected *= parameter.shape[i];
  }
  return true;
}

Range range_in(const Member& member, int64_t size) {
  const auto [begin, numel] = member.pair("a begin and a number");
  const int64_t first = begin.number(0, size);
  return {first, first + numel.number(1, size - first)};
}

std::vector<Range> box_in(const Member& member, const Manifest::Parameter& parameter) {
  std::vector<Range> box;
  member.each([&](const Member& range) {
    if (box.size() == parameter.shape.size()) member.fail("a range for each dimension of the shape");
    box.push_back(range_in(range, parameter.shape[box.size()]));
  });
  if (box.size() != parameter.shape.size()) member.fail("a range for each dimension of the shape");
  if (!lies_in_rows(parameter)) member.fail("no box, since the parameter does not lie in memory row by row");
  return box;
}

Manifest::Part part_in(const Member& member, const Manifest::Parameter& parameter, int64_t numel, int files) {
  Manifest::Part part{.file = static_cast<int>(member["file"].number(0, files - 1)),
                      .offset = member["offset"].number(0, kLargestSize),
                      .placement = layout::part_of_whole(parameter.shape, {})};
  if (member["box"].is_there()) {
    part.placement.box = box_in(member["box"], parameter);
    numel = part.placement.box_numel();
  }
  const int64_t begin = member["begin"].number(0, numel);
  part.placement.range = {begin, begin + member["numel"].number(1, numel - begin)};
  return part;
}

// Parts of one file follow each other there.
void check_offsets(const std::vector<Manifest::Part>& parts, const std::vector<Member>& members) {
  std::vector<size_t> order;
  for (size_t i = 0; i < parts.size(); ++i) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(parts[i].file, parts[i].offset); });
  int64_t next = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const Manifest::Part& part = parts[order[k]];
    if (k == 0 || part.file != parts[order[k - 1]].file) next = 0;
    if (part.offset != next)
      members[order[k]]["offset"].fail(fmt::format("{}: parts of one file follow each other", next));
    next += part.placement.numel();
  }
}

void check_tiling(const std::vector<Manifest::Part>& parts, const Member& list, const std::vector<Member>& members,
                  const Manifest::Parameter& parameter) {
  std::vector<const Placement*> placements;
  for (const Manifest::Part& part : parts) placements.push_back(&part.placement);
  const layout::TilingProblem problem = layout::tiling_problem(parameter.shape, placements);
  if (!problem.expected.empty()) (members.empty() ? list : members[problem.placement]).fail(problem.expected);
}

}  // namespace

OrderedJson json_of(const std::vector<Manifest::Part>& parts) {
  OrderedJson all = OrderedJson::array();
  for (const auto& [file, offset, placement] : parts) {
    all.push_back(
        {{"file", file}, {"offset", offset}, {"begin", placement.range.begin}, {"numel", placement.range.numel()}});
    if (placement.is_whole_box()) continue;
    OrderedJson& box = all.back()["box"] = OrderedJson::array();
    for (const Range& range : placement.box) box.push_back(OrderedJson::array({range.begin, range.numel()}));
  }
  return all;
}

std::vector<Manifest::Part> parts_in(const Member& member, const Manifest::Parameter& parameter,
                                     const Manifest& manifest) {
  const int64_t numel = numel_in(member, parameter);
  const Member list = member["parts"];
  std::vector<Manifest::Part> parts;
  std::vector<Member> members;
  list.each([&](const Member& one) {
    parts.push_back(part_in(one, parameter, numel, static_cast<int>(manifest.files.size())));
    members.push_back(one);
  });
  check_tiling(parts, list, members, parameter);
  check_offsets(parts, members);
  return parts;
}

std::vector<Manifest::Part> parts_of_pieces(const Member& member, const Manifest::Parameter& parameter,
                                            const Manifest& manifest) {
  const int64_t numel = numel_in(member, parameter);
  std::vector<Manifest::Part> parts;
  std::vector<Member> members;
  int64_t shard = -1, begin = 0;
  member["pieces"].each([&](const Member& piece) {
    const auto [of, numel_of_piece] = piece.pair("a shard and a size");
    shard = of.number(shard + 1, manifest.shards - 1);
    const int64_t end = begin + numel_of_piece.number(1, numel - begin);
    parts.push_back(
        {.file = static_cast<int>(shard), .placement = layout::part_of_whole(parameter.shape, {begin, end})});
    members.push_back(piece);
    begin = end;
  });
  check_tiling(parts, member["pieces"], members, parameter);
  return parts;
}

std::map<int, int64_t> numel_by_file(const std::vector<Manifest::Part>& parts) {
  std::map<int, int64_t> all;
  for (const Manifest::Part& part : parts) all[part.file] += part.placement.numel();
  return all;
}

}  // namespace fsdp::checkpoint
