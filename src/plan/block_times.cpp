#include "plan/block_times.h"

#include "base/error.h"
#include "plan/pytorch_work.h"

namespace fsdp::plan {

namespace {

class DividedWork {
 public:
  DividedWork(const DividedModel& model, const DividedTensors& tensors, const Ring& ring, const ShardedEngine& engine,
              const Hardware& hardware)
      : model_(model),
        tensors_(tensors),
        ring_(ring),
        engine_(engine),
        hardware_(hardware),
        layer_(pytorch_block(model.shape, model.pass, hardware)),
        ends_(pytorch_ends(model.shape, model.pass)) {}

  BlockTimes layer(const PassExchanges& exchanges, bool again) const {
    std::vector<Work> backward = layer_.backward;
    append(backward, again ? layer_.forward : model_.is_selective ? layer_.again_selective : std::vector<Work>());
    return times(layer_.forward, backward, layer_.weight_gradient, exchanges);
  }
  // A lookup has no gradient of its input.
  BlockTimes embedding(const PassExchanges& exchanges) const {
    return times(ends_.embedding_forward, ends_.embedding_backward, ends_.embedding_backward, exchanges);
  }
  BlockTimes head(const PassExchanges& exchanges) const {
    std::vector<Work> weights;
    for (const Work& work : ends_.head_forward) {
      if (work.m > 0) weights.push_back(gradients_of({work}).back());
    }
    return times(ends_.head_forward, ends_.head_backward, weights, exchanges);
  }

 private:
  BlockTimes times(std::vector<Work> forward, std::vector<Work> backward, const std::vector<Work>& weights,
                   const PassExchanges& exchanges) const {
    add_exchanges(exchanges.forward, forward);
    add_exchanges(exchanges.backward, backward);
    return {.forward = time(forward, engine_.launch_forward),
            .backward = time(backward, engine_.launch_backward),
            .weight_gradient = time(weights, engine_.launch_backward)};
  }
  WorkTime time(const std::vector<Work>& works, double launch) const {
    return time_of(works, hardware_, launch, model_.pass.element);
  }
  void add_exchanges(const Exchanges& exchanges, std::vector<Work>& works) const {
    const double count = exchanges.sums + exchanges.slices + exchanges.wholes;
    if (ring_.ranks == 1 || count == 0) return;
    const double seconds = tensors_.bytes > 0 ? exchange_seconds(exchanges, tensors_, ring_, hardware_) : 0;
    works.push_back({.kernels = count, .seconds = seconds});
  }

  const DividedModel& model_;
  const DividedTensors& tensors_;
  const Ring& ring_;
  const ShardedEngine& engine_;
  const Hardware& hardware_;
  BlockWork layer_;
  EndsWork ends_;
};

}  // namespace

WorkTime BlockTimes::input_gradient() const {
  return {.host = backward.host - weight_gradient.host,
          .device = backward.device - weight_gradient.device,
          .joint = backward.joint - weight_gradient.joint};
}

std::vector<BlockTimes> block_times(const std::vector<Block>& blocks, const DividedModel& model,
                                    const DividedTensors& tensors, const Ring& ring, const ShardedEngine& engine,
                                    const Hardware& hardware) {
  FSDP_CHECK(model.again.empty() || model.again.size() == blocks.size(),
             "plan: found second forwards of {} blocks, expected those of {}.", model.again.size(), blocks.size());
  const DividedWork work(model, tensors, ring, engine, hardware);
  std::vector<BlockTimes> times;
  bool has_embedding = false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    if (block.is_layer) {
      times.push_back(work.layer(block.exchanges, !model.again.empty() && model.again[i]));
    } else if (block.is_lookup) {
      times.push_back(has_embedding ? BlockTimes() : work.embedding(block.exchanges));
      has_embedding = true;
    } else {
      times.push_back(i + 1 == blocks.size() ? work.head(block.exchanges) : BlockTimes());
    }
  }
  return times;
}

}  // namespace fsdp::plan
