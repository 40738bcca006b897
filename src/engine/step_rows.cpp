#include "engine/step_rows.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

namespace fsdp::engine {

namespace {

using schedule::Action;
using schedule::Event;

void add(StepRow& row, const Action& action) {
  switch (action.kind) {
    case Action::Kind::Gather:
      return row.gathers.push_back(action);
    case Action::Kind::Release:
      return row.releases.push_back(action);
    case Action::Kind::Reduce:
      return row.reductions.push_back(action);
    case Action::Kind::WaitReduce:
    case Action::Kind::WaitBuffer:
      return row.ends.push_back(action);
    case Action::Kind::WaitGather:
    case Action::Kind::OpenGradient:
      return;
  }
}

bool is_gather(const Action& action) {
  return action.kind == Action::Kind::Gather || action.kind == Action::Kind::WaitGather ||
         action.kind == Action::Kind::Release;
}

}  // namespace

std::vector<StepRow> rows_of(const std::vector<Event>& events) {
  std::vector<StepRow> rows(1);  // the first of a gradient that came before any use
  const auto join_idle = [&] {
    const size_t last = rows.size() - 1;
    if (last == 0 || rows[last].phase != rows[last - 1].phase) return;
    if (!rows[last].caused_nothing() || !rows[last - 1].caused_nothing()) return;
    rows[last - 1].uses.insert(rows[last - 1].uses.end(), rows[last].uses.begin(), rows[last].uses.end());
    rows.pop_back();
  };
  for (const auto& [kind, mode, action] : events) {
    if (kind == Event::Kind::Action) {
      add(rows.back(), action);
      continue;
    }
    join_idle();
    const bool end = kind == Event::Kind::EndOfBackward;
    rows.push_back({.phase = end ? "end" : mode == schedule::Mode::Backward ? "backward" : "forward"});
    if (!end) rows.back().uses.push_back(action.unit);
  }
  join_idle();
  if (rows.front().caused_nothing()) rows.erase(rows.begin());
  return rows;
}

StepRow row_behind(const schedule::Actions& actions) {
  StepRow row{.phase = "step"};
  for (const Action& action : actions) add(row, action);
  return row;
}

std::optional<int> shift_between(const StepRow& a, const StepRow& b) {
  if (a.phase != b.phase || a.uses.empty() || b.uses.empty()) return std::nullopt;
  const int shift = b.uses[0] - a.uses[0];
  const auto unit_of = [](const auto& one) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Action>)
      return one.unit;
    else
      return one;
  };
  const auto moved = [&](const auto& from, const auto& to) {
    return std::equal(from.begin(), from.end(), to.begin(), to.end(),
                      [&](const auto& x, const auto& y) { return unit_of(y) - unit_of(x) == shift; });
  };
  const bool same = moved(a.uses, b.uses) && moved(a.gathers, b.gathers) && moved(a.releases, b.releases) &&
                    moved(a.reductions, b.reductions) && moved(a.ends, b.ends);
  return same ? std::optional(shift) : std::nullopt;
}

schedule::Step without_gathers(const schedule::Step& step) {
  schedule::Step kept;
  for (const auto& part : step.micro_batches) {
    std::vector<Event> events = part.events;
    std::erase_if(events, [](const Event& one) { return one.kind == Event::Kind::Action && is_gather(one.action); });
    auto& before = kept.micro_batches;
    if (!before.empty() && before.back().events == events) {
      before.back().count += part.count;
    } else {
      before.push_back({.count = part.count, .full_before = {}, .events = std::move(events)});
    }
  }
  std::copy_if(step.behind.begin(), step.behind.end(), std::back_inserter(kept.behind), std::not_fn(is_gather));
  return kept;
}

}  // namespace fsdp::engine
