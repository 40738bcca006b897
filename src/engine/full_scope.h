// What a FullParameters handle owns.
#pragma once

#include <memory>

#include "engine/model.h"

namespace fsdp::engine {

class FullScope {
 public:
  FullScope(std::shared_ptr<Model> model, bool write_back) : model_(std::move(model)), write_back_(write_back) {
    model_->open_full();
  }
  void close() {
    if (std::shared_ptr<Model> model = std::move(model_)) model->close_full(write_back_);
  }

 private:
  std::shared_ptr<Model> model_;
  bool write_back_;
};

}  // namespace fsdp::engine
