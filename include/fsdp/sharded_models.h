// Several sharded models, trained together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fsdp/movable.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

// Calls of one training loop on all of its models, for example a GAN's generator and discriminator, or a separate
// encoder and decoder. Each model keeps its units, optimizer and strategy.
//
//   fsdp::ShardedModels both({generator, discriminator});
//   both.set_gradient_divisor(world.size() * micro_batches);
//   ...
//   both.clip_grad_norm_(1.0);
//
// A cheap handle that keeps the models alive. Each ShardedModel may be moved meanwhile. Threads: as for one model.
class ShardedModels {
 public:
  // Throws `Error` for an empty list, or for a model that is in it twice.
  explicit ShardedModels(const std::vector<std::reference_wrapper<const ShardedModel>>& models);

  // Sets each model's divisor. Throws `Error` for a divisor that is not positive.
  void set_gradient_divisor(double divisor);
  // Scales the gradients of all models by one factor, so that their norm over all models is at most `max_norm`, and
  // returns the norm before. The result does not depend on the number of ranks or on the order of the models. A
  // collective of each model. Throws `Error` if a model has no gradient, and as ShardedModel::clip_grad_norm_ does.
  double clip_grad_norm_(double max_norm, double norm_type = 2.0);
  // As ShardedModel::clip_grad_norm_async_, over all models.
  torch::Tensor clip_grad_norm_async_(double max_norm, double norm_type = 2.0);
  // Discards the gradients of all models.
  void zero_grad();

  // The sum over the models.
  MemoryReport memory() const;

 private:
  detail::Movable<"ShardedModels", std::vector<std::shared_ptr<engine::Model>>> models_;
};

}  // namespace fsdp
