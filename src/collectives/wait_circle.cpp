#include "collectives/wait_circle.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/rank_names.h"
#include "collectives/status_fields.h"

namespace fsdp::collectives {

std::string encode_waits(const RankWaits& waits) {
  std::string text;
  const auto append = [&text](uint64_t bits) { append_field(text, static_cast<int64_t>(bits)); };
  append(waits.circle);
  append(waits.groups.size());
  for (const GroupUse& use : waits.groups) {
    for (const uint64_t bits : {use.group, use.calls, use.thread}) append(bits);
  }
  append(waits.waits.size());
  for (const ThreadWait& wait : waits.waits) {
    for (const uint64_t bits : {wait.thread, wait.number, wait.group, wait.call, wait.looks}) append(bits);
    append_field(text, wait.doing);
    append(wait.awaited.size());
    for (const int rank : wait.awaited) append_field(text, rank);
  }
  return text;
}

namespace {

GroupUse read_use(FieldReader& reader) {
  GroupUse use;
  for (uint64_t* bits : {&use.group, &use.calls, &use.thread}) *bits = reader.bits();
  return use;
}

int read_rank(FieldReader& reader) { return static_cast<int>(reader.number(0, std::numeric_limits<int>::max())); }

// As many as the text says, or as it has.
template <typename Read>
auto read_list(FieldReader& reader, Read read) {
  std::vector<decltype(read(reader))> list;
  for (uint64_t left = reader.bits(); left > 0 && !reader.failed(); --left) list.push_back(read(reader));
  return list;
}

ThreadWait read_wait(FieldReader& reader) {
  ThreadWait wait;
  for (uint64_t* bits : {&wait.thread, &wait.number, &wait.group, &wait.call, &wait.looks}) *bits = reader.bits();
  wait.doing = reader.text();
  wait.awaited = read_list(reader, read_rank);
  return wait;
}

}  // namespace

std::optional<RankWaits> decode_waits(const std::string& text) {
  FieldReader reader(text);
  RankWaits waits;
  waits.circle = reader.bits();
  waits.groups = read_list(reader, read_use);
  waits.waits = read_list(reader, read_wait);
  return reader.failed() || !reader.is_at_end() ? std::nullopt : std::optional(waits);
}

bool has_come(const ThreadWait& wait, const RankWaits& theirs) {
  const auto use = std::ranges::find(theirs.groups, wait.group, &GroupUse::group);
  return wait.call > 0 && use != theirs.groups.end() && use->calls >= wait.call;
}

namespace {

// The wait that `wait` depends on because of a rank that shows `theirs`; null: none.
const ThreadWait* wait_behind(const ThreadWait& wait, const RankWaits& theirs) {
  const auto use = std::ranges::find(theirs.groups, wait.group, &GroupUse::group);
  if (use == theirs.groups.end() || has_come(wait, theirs)) return nullptr;
  const auto behind = std::ranges::find(theirs.waits, use->thread, &ThreadWait::thread);
  return behind == theirs.waits.end() || behind->group == wait.group ? nullptr : &*behind;
}

struct Reached {
  int rank;
  const ThreadWait* wait;
  size_t from;  // the place of the wait that depends on it
};

WaitCircle circle_to(const std::vector<Reached>& reached, size_t last) {
  WaitCircle circle;
  for (size_t place = last;; place = reached[place].from) {
    circle.push_back({reached[place].rank, *reached[place].wait});
    if (place == 0) break;
  }
  std::ranges::reverse(circle);
  std::ranges::rotate(circle, std::ranges::min_element(circle, {}, &WaitInCircle::rank));
  return circle;
}

}  // namespace

// In breadth.
WaitCircle find_circle(int rank, const ThreadWait& wait, const WaitsOf& waits_of) {
  std::vector<Reached> reached{{rank, &wait, 0}};
  std::set<std::pair<int, uint64_t>> known;
  for (size_t place = 0; place < reached.size(); ++place) {
    const ThreadWait& present = *reached[place].wait;
    for (const int awaited : present.awaited) {
      const RankWaits* const theirs = awaited == reached[place].rank ? nullptr : waits_of(awaited);
      const ThreadWait* const behind = theirs ? wait_behind(present, *theirs) : nullptr;
      if (behind == nullptr) continue;
      if (awaited == rank && behind->thread == wait.thread) return circle_to(reached, place);
      if (known.insert({awaited, behind->thread}).second) reached.push_back({awaited, behind, place});
    }
  }
  return {};
}

std::string circle_text(const WaitCircle& circle) {
  std::string text;
  for (size_t place = 0; place < circle.size(); ++place) {
    const WaitInCircle& one = circle[place];
    text += fmt::format("{}{} {} and waits for rank {}", place == 0 ? "" : ", ", text_of_rank(one.rank), one.wait.doing,
                        circle[(place + 1) % circle.size()].rank);
  }
  return text +
         ". This is a circle, so none of these ranks can continue. Make the calls of different worlds, axes and models "
         "in one order on all ranks.";
}

bool CircleWatch::is_certain(const WaitCircle& circle) {
  const auto is_same = [](const WaitInCircle& one, const WaitInCircle& other) {
    return one.rank == other.rank && one.wait.number == other.wait.number;
  };
  const auto is_earlier = [](const WaitInCircle& one, const WaitInCircle& other) {
    return one.wait.looks < other.wait.looks;
  };
  if (circle.empty() || !std::ranges::equal(circle, last_, is_same)) {
    readings_ = circle.empty() ? 0 : 1;
    last_ = circle;
  } else if (std::ranges::equal(last_, circle, is_earlier)) {
    ++readings_;
    last_ = circle;
  }
  return readings_ >= kReadings;
}

}  // namespace fsdp::collectives
