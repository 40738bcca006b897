// A look at a model's parts, for reports: they are locked and stay as they are while it lives.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "engine/model.h"

namespace fsdp::engine {

class ModelView {
 public:
  explicit ModelView(const Model& model) : parts_(model.parts_), lock_(parts_.mutex) {}

  const Parts& operator*() const { return parts_; }
  const Parts* operator->() const { return &parts_; }

  // The wait that goes on, and its unit. Takes no lock, which a waiting call holds.
  static std::optional<std::pair<Activity, int>> waits_now(const Model& model) {
    return model.parts_.recorder.waits_now();
  }

 private:
  const Parts& parts_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace fsdp::engine
