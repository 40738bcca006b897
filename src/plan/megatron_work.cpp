#include "plan/megatron_work.h"

#include <cmath>

#include "plan/collective_time.h"

namespace fsdp::plan {

namespace {

using Works = std::vector<Work>;

Works joined(std::initializer_list<Works> parts) {
  Works all;
  for (const Works& part : parts) append(all, part);
  return all;
}

class MegatronKernels {
 public:
  MegatronKernels(const TransformerShape& shape, const MegatronPass& pass, const MegatronEngine& engine,
                  const Hardware& hardware)
      : engine_(engine),
        hardware_(hardware),
        pass_(pass),
        tokens_(pass.batch * pass.sequence),
        width_(shape.width),
        heads_(pass.batch * shape.heads / pass.tensor),
        head_width_(shape.head_width),
        vocabulary_(divided_vocabulary(shape.vocabulary, pass.tensor)),
        t_(static_cast<double>(tokens_)),
        h_(static_cast<double>(width_)),
        p_(static_cast<double>(pass.tensor)),
        scores_(static_cast<double>(heads_) * static_cast<double>(pass.sequence * pass.sequence)),
        total_(sum_of_parts(2 * t_ * h_)) {}

  Works layer_forward() const {
    const double th = t_ * h_;
    return joined(
        {{memory_pass(4 * th), fused(), memory_pass(12 * th / p_, 3), scored(),
          memory_pass(kForwardScores * engine_.score_bytes * scores_, 3), context(), memory_pass(4 * th / p_), out()},
         total_,
         {memory_pass(7 * th, 2), memory_pass(4 * th), up(), memory_pass(16 * th / p_), down()},
         total_,
         {memory_pass(7 * th, 2)}});
  }

  Works layer_backward() const {
    const double th = t_ * h_, matrices = 12 * h_ * h_ / p_;
    return joined({{memory_pass(7 * th, 2)},
                   gradients_of({down()}),
                   {memory_pass(2 * th), memory_pass(24 * th / p_), memory_pass(8 * th / p_)},
                   gradients_of({up()}),
                   total_,
                   {memory_pass(10 * th, 2), memory_pass(6 * th), memory_pass(7 * th, 2), memory_pass(2 * th)},
                   gradients_of({out()}),
                   {memory_pass(4 * th / p_)},
                   gradients_of({context()}),
                   {memory_pass((1 - kForwardScores) * engine_.score_bytes * scores_, 3)},
                   gradients_of({scored()}),
                   {memory_pass(12 * th / p_, 3), memory_pass(6 * th / p_)},
                   gradients_of({fused()}),
                   total_,
                   {memory_pass(10 * th, 2), memory_pass(6 * th), memory_pass(6 * matrices, 12)}});
  }

  Works embedding_forward() const {
    return joined({{memory_pass(4 * t_ * h_, 3)}, total_, {memory_pass(11 * t_ * h_, 4)}});
  }
  Works embedding_backward() const {
    const double rows = static_cast<double>(vocabulary_) * h_;
    return {memory_pass(5 * t_ * h_, 2), memory_pass(4 * rows + 8 * t_ * h_, 6), memory_pass(6 * rows)};
  }
  Works head_forward() const {
    const Works small = sum_of_parts(4 * t_);
    return joined({{memory_pass(4 * t_ * h_), head(), memory_pass(24 * t_ * static_cast<double>(vocabulary_), 12)},
                   small,
                   small,
                   small});
  }
  Works head_backward() const {
    const auto vocabulary = static_cast<double>(vocabulary_);
    return joined({{memory_pass(16 * t_ * vocabulary, 6)},
                   gradients_of({head()}),
                   total_,
                   {memory_pass(10 * t_ * h_, 2), memory_pass(6 * vocabulary * h_)}});
  }

 private:
  static constexpr double kForwardScores = 0.45;  // of the traffic of scores
  static constexpr double kProfiledRanks = 8;     // the engine's numbers of sums are those of so many

  Work fused() const { return product(tokens_, 3 * width_ / pass_.tensor, width_); }
  Work scored() const { return product(pass_.sequence, pass_.sequence, head_width_, heads_); }
  Work context() const { return product(pass_.sequence, head_width_, pass_.sequence, heads_); }
  Work out() const { return product(tokens_, width_, width_ / pass_.tensor); }
  Work up() const { return product(tokens_, 4 * width_ / pass_.tensor, width_); }
  Work down() const { return product(tokens_, width_, 4 * width_ / pass_.tensor); }
  Work head() const {
    return product(tokens_, vocabulary_, width_, 1, pass_.tensor == 1 ? engine_.odd_vocabulary_rate : 1);
  }

  // Hosts stall, and ranks come apart, the more the more ranks there are.
  Works sum_of_parts(double bytes) const {
    if (pass_.tensor == 1) return {};
    const double share = p_ / kProfiledRanks;
    const double seconds =
        engine_.meet * share + collective_seconds(Collective::AllReduce, bytes, {pass_.tensor, 1}, hardware_);
    return {{.kernels = 2,
             .seconds = seconds,
             .host_seconds = engine_.stall * std::pow(share, 4) / static_cast<double>(pass_.batch)}};
  }

  const MegatronEngine& engine_;
  const Hardware& hardware_;
  MegatronPass pass_;
  int64_t tokens_, width_, heads_, head_width_, vocabulary_;
  double t_, h_, p_, scores_;
  Works total_;
};

}  // namespace

int64_t divided_vocabulary(int64_t vocabulary, int64_t tensor) {
  const int64_t multiple = 128 * tensor;
  return (vocabulary + multiple - 1) / multiple * multiple / tensor;
}

MegatronWork megatron_work(const TransformerShape& shape, const MegatronPass& pass, const MegatronEngine& engine,
                           const Hardware& hardware) {
  const MegatronKernels kernels(shape, pass, engine, hardware);
  constexpr int64_t kHalf = 2;
  const auto forward = [&](const std::vector<Work>& works) {
    return time_of(works, hardware, engine.launch_forward, kHalf, engine.exposed);
  };
  const auto backward = [&](const std::vector<Work>& works) {
    return time_of(works, hardware, engine.launch_backward, kHalf, engine.exposed);
  };
  return {.layer_forward = forward(kernels.layer_forward()),
          .layer_backward = backward(kernels.layer_backward()),
          .embedding_forward = forward(kernels.embedding_forward()),
          .embedding_backward = backward(kernels.embedding_backward()),
          .head_forward = forward(kernels.head_forward()),
          .head_backward = backward(kernels.head_backward())};
}

}  // namespace fsdp::plan
