// Tensors on their way to this rank's stages and from them: inputs, and gradients of outputs. Between stages of one
// rank they wait here. For one thread.
#pragma once

#include <compare>
#include <map>
#include <string>

#include "pipeline/action_times.h"
#include "pipeline/links.h"
#include "pipeline/stage_layout.h"

namespace fsdp::pipeline {

class StageMessages {
 public:
  // The tensors that a stage gets for a micro-batch: its inputs, or the gradients of its outputs.
  struct Way {
    int stage;
    bool gradients;
    int micro_batch;
    auto operator<=>(const Way&) const = default;
    int source() const { return stage + (gradients ? 1 : -1); }  // the stage that makes them
  };

  // All outlive it. `axis` names ranks in messages.
  StageMessages(World axis, const StageLayout& layout, Links& links, ActionTimes& times)
      : axis_(std::move(axis)), layout_(layout), links_(links), times_(times) {}

  // A stage of this rank has made them.
  void put(const Way& way, Tensors tensors) { made_here_[way] = std::move(tensors); }
  // They begin to leave for the rank of their stage.
  void send(const Way& way);
  void begin_receive(const Way& way);
  // Waits for them.
  Tensors take(const Way& way);

 private:
  std::string wait_for(const Way& way) const;

  World axis_;
  const StageLayout& layout_;
  Links& links_;
  ActionTimes& times_;
  std::map<Way, Tensors> made_here_;
  std::map<Way, Arrival> arriving_;
};

}  // namespace fsdp::pipeline
