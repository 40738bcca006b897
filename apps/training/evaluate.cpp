#include "training/evaluate.h"

#include <algorithm>
#include <vector>

#include "data/batch.h"
#include "run/evaluation_pass.h"

namespace trainer {

namespace {

// One forward pass: windows of one length.
struct Pass {
  std::vector<int64_t> starts;
  int64_t length;
  int64_t tokens() const { return static_cast<int64_t>(starts.size()) * length; }
};

// The passes of an evaluation, by number. Which rank runs one does not matter.
class Passes {
 public:
  // `windows` as in Evaluation
  Passes(int64_t tokens, int64_t context, int64_t windows)
      : context_(context),
        batch_(windows_of_pass(context)),
        available_((tokens - 1) / context),
        windows_(windows == 0 ? available_ : std::min(windows, available_)),
        rest_(windows == 0 ? (tokens - 1) % context : 0) {}

  int64_t count() const { return full() + (rest_ > 0 ? 1 : 0); }

  Pass at(int64_t number) const {
    if (number == full()) return {{available_ * context_}, rest_};
    Pass pass{.starts = {}, .length = context_};
    for (int64_t i = number * batch_; i < std::min((number + 1) * batch_, windows_); ++i) {
      pass.starts.push_back(i * available_ / windows_ * context_);
    }
    return pass;
  }

 private:
  int64_t full() const { return (windows_ + batch_ - 1) / batch_; }

  int64_t context_, batch_, available_, windows_;
  int64_t rest_;  // tokens after the last window
};

data::Batch batch_of(const Evaluation& evaluation, const Pass& pass) {
  return data::make_batch(evaluation.tokens, pass.starts, pass.length, evaluation.model.config().vocabulary);
}

// Adds up the losses of all ranks, in the passes' order. The host reads the losses of many passes at once: it does not
// wait for a GPU, or for other ranks, in between.
class LossSum {
 public:
  LossSum(fsdp::World& world, const Passes& passes) : world_(world), passes_(passes) {}

  void add(const torch::Tensor& own) {
    constexpr size_t kAtOnce = 256;
    losses_.push_back(own);
    if (losses_.size() == kAtOnce) read();
  }
  MeanLoss mean() {
    if (!losses_.empty()) read();
    return {.nats = sum_ / static_cast<double>(tokens_), .tokens = tokens_};
  }

 private:
  void read() {
    const auto of_ranks = world_.all_gather(torch::stack(losses_).to(torch::kFloat64).cpu());
    for (int64_t round = 0; round < static_cast<int64_t>(losses_.size()); ++round) {
      for (const torch::Tensor& losses : of_ranks) {
        if (next_ == passes_.count()) break;  // a rank without a pass made the last one once more
        const int64_t tokens = passes_.at(next_++).tokens();
        sum_ += losses[round].item<double>() * static_cast<double>(tokens);
        tokens_ += tokens;
      }
    }
    losses_.clear();
  }

  fsdp::World& world_;
  const Passes& passes_;
  std::vector<torch::Tensor> losses_;  // this rank's, not read yet
  int64_t next_ = 0;                   // pass
  double sum_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace

std::optional<MeanLoss> mean_loss(const Evaluation& evaluation) {
  const Passes passes(evaluation.tokens.size(), evaluation.model.config().context, evaluation.windows);
  const int64_t count = passes.count(), ranks = evaluation.world.size();
  if (count < 1) return std::nullopt;
  const int64_t rank = evaluation.world.rank(), at_once = ranks * evaluation.model.batches_at_once();
  evaluation.model.module().eval();
  LossSum sum(evaluation.world, passes);
  for (int64_t first = 0; first < count; first += at_once) {
    std::vector<data::Batch> batches;
    // A rank for which nothing is left computes the last pass once more: gathers need all ranks.
    for (int64_t number = first; number < std::min(first + at_once, count); number += ranks) {
      batches.push_back(batch_of(evaluation, passes.at(std::min(number + rank, count - 1))));
    }
    for (const torch::Tensor& loss : evaluation.model.losses(batches)) sum.add(loss);
    if (evaluation.on_progress) evaluation.on_progress(std::min(first + at_once, count), count);
  }
  evaluation.model.module().train();
  return sum.mean();
}

std::optional<double> validation_loss(Training& training) {
  const data::TokenSource* tokens = training.corpus.validation.get();
  // Without a whole window nothing is held back.
  if (tokens == nullptr || tokens->size() <= training.options.model.context) return std::nullopt;
  const auto goes_on = [&](int64_t, int64_t) { training.phase.goes_on(); };
  const auto loss = mean_loss({.world = training.mesh.data(),
                               .model = training.model,
                               .tokens = *tokens,
                               .windows = training.options.validation_windows,
                               .on_progress = goes_on});
  return loss ? std::optional(loss->nats) : std::nullopt;
}

}  // namespace trainer
