// The order of uses in a step of which the order of forwards and backwards is given, as by a pipeline's schedule. It
// has any number of segments: each is a forward or a backward of one micro-batch through one stage.
//
// The uses of a segment are learnt when one of its kind first runs: the forwards of a stage use the same units, and so
// do its backwards. The plan is that of the whole step, so that units are gathered ahead over the ends of segments. All
// ranks that share shards are given the same order. Pure; not for concurrent use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

struct Segment {
  int stage = 0;
  bool backward = false;
  int64_t micro_batch = 0;

  bool operator==(const Segment&) const = default;
};

class GivenOrder final : public UseOrder {
 public:
  GivenOrder() : UseOrder(/*repeats=*/false) {}

  // The segments of every step from now on; none: the order is not given any more.
  void give(std::vector<Segment> segments);
  bool given() const { return !segments_.empty(); }

  // The events that follow belong to this micro-batch: a segment of it begins with the first use.
  void begin(int64_t micro_batch) {
    named_ = micro_batch;
    is_named_anew_ = true;
  }
  // They belong again to the one before, and its segment goes on.
  void go_back_to(std::optional<int64_t> micro_batch) {
    named_ = micro_batch;
    if (segment_ && segments_[*segment_].micro_batch == named_) is_named_anew_ = false;
  }
  void use(UnitId unit, Mode mode);
  // The next segment is the first of a step.
  void end_step();
  // A backward threw: the rest of the step is not followed.
  void abandon();
  void forget_all();

  // True if other segments of this step follow the present one.
  bool has_more() const { return segment_ && !lost_ && *segment_ + 1 < segments_.size(); }
  // True if the unit is expected among the first `uses` uses of the next step.
  bool begins_next_step_with(UnitId unit, int uses) const;
  // All that the plan is made from, as numbers.
  std::vector<int> learnt() const;
  const std::vector<UnitId>& recording() const { return recorded_; }

 private:
  using Kind = std::pair<int, bool>;  // a stage, and whether it is a backward

  static Kind kind_of(const Segment& segment) { return {segment.stage, segment.backward}; }
  bool goes_on(bool backward) const;
  void begin_segment(bool backward);
  void lose();
  void end_segment();
  void make_plan();

  std::vector<Segment> segments_;
  std::map<Kind, std::vector<UnitId>> uses_;
  std::vector<size_t> begins_;     // of each segment in the plan
  std::optional<size_t> segment_;  // the present one; none before the first
  std::optional<int64_t> named_;   // the micro-batch of the events that follow
  bool is_named_anew_ = false;     // and nothing was used since
  bool lost_ = false;              // a segment came that is not the order's next
};

}  // namespace fsdp::schedule
