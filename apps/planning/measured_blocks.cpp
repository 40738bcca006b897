#include "planning/measured_blocks.h"

#include <fsdp/activations.h>

#include <algorithm>
#include <numeric>

#include "models/head.h"
#include "models/language_model.h"
#include "options/frozen.h"
#include "planning/generator_kept.h"
#include "planning/measured_activations.h"
#include "planning/one_thread.h"
#include "run/sharding.h"

namespace trainer {

namespace {

// One block of a tiny model, with an input.
class BlockTrial {
 public:
  BlockTrial(const RunOptions& tiny, const models::Division& division, int block, bool recomputed)
      : division_(division), block_(block), model_(models::make_model(tiny.model, division)) {
    models::Recomputation recomputation = tiny.recomputation();
    recomputation.blocks = recomputed ? 1 : 0;
    model_->set_recomputation(recomputation);
    const std::set<std::string> frozen = frozen_parameters(tiny);
    for (auto& parameter : model_->named_parameters()) {
      if (frozen.contains(parameter.key())) parameter.value().set_requires_grad(false);
    }
    model_->to(compute_dtype_of(tiny));
    tokens_ = torch::zeros({tiny.batch, tiny.model.context}, torch::kInt64);
    activations_ = torch::zeros({tiny.batch, tiny.model.context, tiny.model.width}, compute_dtype_of(tiny));
    activations_.requires_grad_();
  }

  PlannedBlocks::Storages run() const {
    // A forward that ends with a drop has no moment behind it, but for a last saved tensor: the smallest.
    const torch::Tensor mark = torch::ones({}, torch::requires_grad());
    torch::Tensor last;
    auto kept = fsdp::preview_activations(*model_, [&] {
      torch::Tensor result = forward();
      last = mark * mark;
      return result;
    });
    kept.back().pop_back();
    const auto moments = fsdp::preview_activations(*model_, [&] {
      torch::Tensor result = forward();
      if (result.requires_grad()) result.sum().backward();
      return result;
    });
    return {.kept = kept.back(), .moments = moments};
  }

 private:
  torch::Tensor forward() const {
    const std::vector<models::BlockForward> forwards = models::block_forwards(model_->config(), division_);
    if (static_cast<size_t>(block_) == forwards.size()) {
      const auto head = model_->block(block_);
      const torch::Tensor weight = models::head_weight(head ? *head : *model_->block(0));
      return models::head_loss(activations_, weight, tokens_, division_);
    }
    models::Pass pass;
    const torch::Tensor& input = block_ == 0 ? tokens_ : activations_;
    return forwards[static_cast<size_t>(block_)](*model_->block(block_), input, pass);
  }

  models::Division division_;
  int block_;
  std::shared_ptr<models::LanguageModel> model_;
  torch::Tensor tokens_, activations_;
};

}  // namespace

PlannedBlocks measured_blocks(const fsdp::World& alone) {
  return PlannedBlocks(
      [alone](const RunOptions& tiny, int block, bool recomputed) {
        const GeneratorKept kept;
        const OneThread one_thread;
        models::Division division;
        if (tiny.model.is_part) division = {.tensor = alone, .parts = 1, .sequence_parallel = tiny.sequence_parallel};
        return BlockTrial(tiny, division, block, recomputed).run();
      },
      kept_logits_on(alone.device()));
}

}  // namespace trainer
