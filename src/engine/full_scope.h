// What a FullParameters handle owns.
#pragma once

#include <memory>

#include "engine/model.h"

namespace fsdp::engine {

class FullScope {
 public:
  FullScope(std::shared_ptr<Model> model, FullParametersOptions options) : model_(std::move(model)) {
    model_->open_full(std::move(options));
  }
  void close() {
    if (std::shared_ptr<Model> model = std::move(model_)) model->close_full();
  }

 private:
  std::shared_ptr<Model> model_;
};

}  // namespace fsdp::engine
