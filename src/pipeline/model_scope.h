// The sharded models of a stage, told which micro-batch their events belong to (micro_batch.h).
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fsdp {

namespace engine {
class Model;
}

namespace pipeline {

class ModelScopes {
 public:
  // Finds the models that hold parameters of the module; none if the module is not sharded.
  explicit ModelScopes(const torch::nn::Module& module);

  bool empty() const { return models_.empty(); }
  // Among the ranks that the module is sharded over; 0 and 1 if it is not.
  int rank() const;
  int ranks() const;
  const std::vector<std::shared_ptr<engine::Model>>& all() const { return models_; }

  class Scope {
   public:
    Scope(const ModelScopes& models, int64_t number);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const ModelScopes& models_;
    std::vector<std::optional<int64_t>> outer_;
  };

 private:
  std::vector<std::shared_ptr<engine::Model>> models_;
};

}  // namespace pipeline
}  // namespace fsdp
