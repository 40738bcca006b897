#include "report/timeline.h"

#include <algorithm>
#include <utility>

namespace fsdp::report {

Timeline::Timeline(std::function<MemorySample()> memory) : memory_(std::move(memory)) {
  if (memory_) memory_();
  looked_at_ = now();
}

void Timeline::look_at_memory() {
  if (!memory_) return;
  MemorySample sample = memory_();
  sample.time = std::exchange(looked_at_, now());
  samples_.push_back(sample);
}

void Timeline::computes(Activity activity, int unit, int64_t end) {
  if (computing_ && computing_->activity == activity && computing_->unit == unit) return;
  if (computing_) {
    computing_->end = end;
    spans_.push_back(*computing_);
  }
  look_at_memory();
  computing_ = {activity, unit, now()};
}

void Timeline::computes_nothing() {
  if (!computing_) return;
  computing_->end = now();
  spans_.push_back(*computing_);
  computing_.reset();
  look_at_memory();
}

// One that began before the trace did is not known.
void Timeline::ends(Activity activity, int unit) {
  const auto begun = std::find_if(under_way_.begin(), under_way_.end(),
                                  [&](const Span& span) { return span.activity == activity && span.unit == unit; });
  if (begun == under_way_.end()) return;
  begun->end = now();
  spans_.push_back(*begun);
  under_way_.erase(begun);
}

std::vector<Span> Timeline::take() {
  computes_nothing();
  under_way_.clear();
  return std::exchange(spans_, {});
}

}  // namespace fsdp::report
