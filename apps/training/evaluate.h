// The loss on text that is not trained on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/token_source.h"
#include "training/training.h"

namespace trainer {

struct MeanLoss {
  double nats;     // per token
  int64_t tokens;  // that were predicted
};

struct Evaluation {
  fsdp::World& world;  // the data ranks, which share the work
  TrainedModel& model;
  const data::TokenSource& tokens;
  // Windows of the model's context, spread evenly over the tokens; fewer if there are too few tokens. 0: every token
  // except the first is predicted, the last ones in a shorter window.
  int64_t windows = 0;
  std::function<void(int64_t done, int64_t total)> on_progress = nullptr;  // in passes; may be empty
};

// None where the tokens have no window. The result has the same bits on any number of ranks.
// The model is in training mode afterwards. A collective. Throws fsdp::Error for a token that the model does not have.
std::optional<MeanLoss> mean_loss(const Evaluation& evaluation);

// Over --validation-windows windows of the validation data; none where there is no such data.
std::optional<double> validation_loss(Training& training);

}  // namespace trainer
