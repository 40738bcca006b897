#include "fsdp-calibrate/operator_rates.h"

#include <fsdp/loss.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>

namespace calibration {

namespace {

using fsdp::plan::CpuShare;
using fsdp::plan::RatesBySize;
using torch::Tensor;

// Copies of a work's operands, used in turn, so that they are no more in the caches than in training.
class Ring {
 public:
  Ring(const std::vector<std::vector<int64_t>>& shapes, torch::ScalarType dtype) {
    constexpr int64_t kBytes = int64_t{12} << 20, kMost = 24;
    int64_t bytes = 0;
    for (const auto& shape : shapes) bytes += c10::multiply_integers(shape) * static_cast<int64_t>(elementSize(dtype));
    const int64_t copies = std::clamp<int64_t>(kBytes / bytes, 1, kMost);
    for (int64_t copy = 0; copy < copies; ++copy) {
      sets_.emplace_back();
      for (const auto& shape : shapes) sets_.back().push_back(torch::rand(shape).sub_(0.5).to(dtype));
    }
  }
  const std::vector<Tensor>& next() { return sets_[++turn_ % sets_.size()]; }

 private:
  std::vector<std::vector<Tensor>> sets_;
  size_t turn_ = 0;
};

// An operator's forward, and its backward over and over again.
struct Timed {
  size_t forward, backward;
};

// `make` returns the results of one forward of the leaves.
template <typename Make>
Timed add_differentiable(Stopwatch& stopwatch, const std::vector<Tensor>& leaves, const Make& make) {
  for (const Tensor& leaf : leaves) leaf.set_requires_grad(true);
  const Tensor result = make(leaves);
  const Tensor gradient = torch::rand(result.sizes()).to(result.scalar_type());
  return {stopwatch.add([=] { make(leaves); }),
          stopwatch.add([=] { torch::autograd::grad({result}, leaves, {gradient}, /*retain_graph=*/true); })};
}

class OperatorClock {
 public:
  OperatorClock(fsdp::World& world, torch::ScalarType dtype, const Effort& effort)
      : stopwatch_(world, effort), dtype_(dtype) {
    share_.ranks = world.size();
    share_.threads = torch::get_num_threads();
    share_.element = static_cast<int64_t>(elementSize(dtype));
  }

  CpuShare measure() {
    add_small_operators();
    for (const int64_t width : {64, 128, 256, 512, 1024}) add_products(width);
    for (const int64_t elements : {1 << 14, 1 << 17, 1 << 20, 1 << 23}) add_pass(elements);
    for (const int64_t sequence : {64, 256, 1024}) add_attention(sequence);
    const Tensor inner = random({512, 1024}), outer = random({512, 256});
    activation_ = add_differentiable(stopwatch_, {inner}, [](const auto& x) { return torch::gelu(x[0], "tanh"); });
    norm_ = add_differentiable(stopwatch_, {outer, random({256}), random({256})},
                               [](const auto& x) { return torch::layer_norm(x[0], {256}, x[1], x[2]); });
    add_loss();
    stopwatch_.run();
    return read();
  }

 private:
  struct Products {
    int64_t rows, width;
    size_t forward, of_input, of_weight;
  };
  struct Sized {
    int64_t size;
    Timed timed;
  };

  Tensor random(const std::vector<int64_t>& shape) const { return torch::rand(shape).sub_(0.5).to(dtype_); }

  // A chain of operators on a few elements: their fixed costs.
  void add_small_operators() {
    const Tensor leaf = random({8}).set_requires_grad(true), other = random({8});
    const auto chain = [=] {
      Tensor x = leaf;
      for (int i = 0; i < kChain; ++i) x = x + other;
      return x;
    };
    const Tensor end = chain(), gradient = random({8});
    small_ = {stopwatch_.add([=] { chain(); }),
              stopwatch_.add([=] { torch::autograd::grad({end}, {leaf}, {gradient}, /*retain_graph=*/true); })};
  }

  // A linear layer on as many tokens as a few sequences have.
  void add_products(int64_t width) {
    constexpr int64_t kRows = 512;
    const auto ring = std::make_shared<Ring>(
        std::vector<std::vector<int64_t>>{{kRows, width}, {width, width}, {kRows, width}}, dtype_);
    products_.push_back({kRows, width, stopwatch_.add([=] {
                           const auto& set = ring->next();
                           torch::linear(set[0], set[1]);
                         }),
                         stopwatch_.add([=] {
                           const auto& set = ring->next();
                           torch::mm(set[2], set[1]);
                         }),
                         stopwatch_.add([=] {
                           const auto& set = ring->next();
                           torch::mm(set[2].t(), set[0]);
                         })});
  }

  void add_pass(int64_t elements) {
    const auto ring = std::make_shared<Ring>(std::vector<std::vector<int64_t>>{{elements}, {elements}}, dtype_);
    passes_.push_back({elements,
                       {stopwatch_.add([=] {
                          const auto& set = ring->next();
                          torch::add(set[0], set[1]);
                        }),
                        0}});
  }

  // Heads as a model divides and merges them.
  void add_attention(int64_t sequence) {
    const int64_t batch = std::max<int64_t>(1, 512 / sequence);
    const Tensor all = random({batch, sequence, 3, kHeads, kHeadWidth}).permute({2, 0, 3, 1, 4});
    attention_.push_back({sequence, add_differentiable(stopwatch_, {all[0], all[1], all[2]}, [](const auto& x) {
                            return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, /*is_causal=*/true);
                          })});
    attention_tokens_.push_back(batch * sequence);
  }

  // The loss, and its products alone.
  void add_loss() {
    const Tensor hidden = random({kLossRows, kLossWidth}).set_requires_grad(true),
                 weight = random({kVocabulary, kLossWidth}).set_requires_grad(true),
                 targets = torch::randint(kVocabulary, {kLossRows}, torch::kInt64),
                 logits = random({kLossRows, kVocabulary});
    loss_ = stopwatch_.add([=] {
      const Tensor loss = fsdp::linear_cross_entropy(hidden, weight, targets, {.check_targets = false});
      torch::autograd::grad({loss}, {hidden, weight});
    });
    const Tensor rows = hidden.detach(), columns = weight.detach();
    loss_products_ = stopwatch_.add([=] {
      torch::linear(rows, columns);
      torch::mm(logits, columns);
      torch::mm(logits.t(), rows);
    });
  }

  double seconds(size_t work) const { return stopwatch_.seconds(work); }
  // The fixed cost of an operator is left out.
  double forward_of(const Timed& timed) const {
    return std::max(seconds(timed.forward) - share_.operator_seconds, 0.1 * seconds(timed.forward));
  }
  double backward_of(const Timed& timed) const {
    return std::max(seconds(timed.backward) - share_.backward_operator_seconds, 0.1 * seconds(timed.backward));
  }

  CpuShare read() {
    share_.operator_seconds = seconds(small_.forward) / kChain;
    share_.backward_operator_seconds = seconds(small_.backward) / kChain;
    for (const Products& of : products_) {
      const double operations = 2.0 * static_cast<double>(of.rows * of.width * of.width),
                   size = std::cbrt(operations / 2);
      share_.products[size] = operations / forward_of({of.forward, 0});
      share_.backward_products[size] = 2 * operations / (forward_of({of.of_input, 0}) + forward_of({of.of_weight, 0}));
    }
    for (const Sized& of : passes_)
      share_.passes[static_cast<double>(of.size)] = static_cast<double>(of.size) / forward_of(of.timed);
    for (size_t i = 0; i < attention_.size(); ++i) {
      const auto sequence = static_cast<double>(attention_[i].size);
      const double operations = 4 * static_cast<double>(attention_tokens_[i]) * sequence * kHeads * kHeadWidth;
      share_.attention[sequence] = operations / forward_of(attention_[i].timed);
      share_.backward_attention[sequence] = 2.5 * operations / backward_of(attention_[i].timed);
    }
    share_.activation_rate = 512 * 1024 / forward_of(activation_);
    share_.backward_activation_rate = 512 * 1024 / backward_of(activation_);
    share_.norm_rate = 512 * 256 / forward_of(norm_);
    share_.backward_norm_rate = 512 * 256 / backward_of(norm_);
    const double logits = kLossRows * kVocabulary, of_loss = seconds(loss_);
    share_.logit_rate = logits / std::max(of_loss - seconds(loss_products_), 0.05 * of_loss);
    return share_;
  }

  static constexpr int kChain = 32;
  static constexpr int64_t kHeads = 4, kHeadWidth = 64, kLossRows = 512, kLossWidth = 128, kVocabulary = 2048;

  Stopwatch stopwatch_;
  torch::ScalarType dtype_;
  CpuShare share_;
  Timed small_{}, activation_{}, norm_{};
  std::vector<Products> products_;
  std::vector<Sized> passes_, attention_;
  std::vector<int64_t> attention_tokens_;
  size_t loss_ = 0, loss_products_ = 0;
};

}  // namespace

CpuShare measured_operators(fsdp::World& world, torch::ScalarType dtype, const Effort& effort) {
  return OperatorClock(world, dtype, effort).measure();
}

}  // namespace calibration
