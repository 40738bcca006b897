#include "plan/cpu_work.h"

#include <algorithm>
#include <cmath>

#include "plan/collective_time.h"

namespace fsdp::plan {

namespace {

// Seconds of a forward and of its backward.
struct PassSeconds {
  double forward = 0, backward = 0;

  PassSeconds operator+(const PassSeconds& other) const { return {forward + other.forward, backward + other.backward}; }
};

class CpuOperators {
 public:
  CpuOperators(const TransformerShape& shape, const PassShape& pass, const CpuShare& share)
      : shape_(shape), pass_(pass), share_(share), tokens_(static_cast<double>(pass.tokens())) {}

  // [tokens, k] by [k, n], and the gradients of both.
  PassSeconds linear(int64_t n, int64_t k, bool has_bias) const {
    const double outputs = tokens_ * static_cast<double>(n), operations = 2 * outputs * static_cast<double>(k);
    const double size = std::cbrt(operations / 2);
    const PassSeconds products = {operations / rate_at(share_.products, size),
                                  2 * operations / rate_at(share_.backward_products, size)};
    // Biases are spread over the rows, and their gradients are sums of rows.
    return products + operators(1, 2) + (has_bias ? passes(outputs, kRead, kRead) + operators(0, 1) : PassSeconds{});
  }

  PassSeconds norm() const {
    const double elements = tokens_ * static_cast<double>(shape_.width);
    return PassSeconds{elements / share_.norm_rate, elements / share_.backward_norm_rate} + operators(1, 1);
  }

  PassSeconds activation() const {
    const double elements = tokens_ * static_cast<double>(shape_.mlp_width);
    PassSeconds seconds =
        PassSeconds{elements / share_.activation_rate, elements / share_.backward_activation_rate} + operators(1, 1);
    if (shape_.has_gate) seconds = seconds + passes(elements, 1, 2) + operators(1, 2);
    return seconds;
  }

  PassSeconds attention() const {
    const auto sequence = static_cast<double>(pass_.sequence), queries = static_cast<double>(shape_.queries());
    const double operations = 4 * tokens_ * sequence * queries;
    const PassSeconds kernel = {operations / rate_at(share_.attention, sequence),
                                2.5 * operations / rate_at(share_.backward_attention, sequence)};
    const double merged = tokens_ * queries, all = tokens_ * (queries + 2 * static_cast<double>(shape_.keys()));
    // Heads are merged by a copy. In a backward the gradients of queries, keys and values are copied together.
    PassSeconds seconds = kernel + passes(merged, kCopy, 0) + passes(all, 0, kCopy) + operators(8, 8);
    if (shape_.has_rotary) seconds = seconds + passes(all, 3, 3) + operators(12, 14);
    return seconds;
  }

  // x + f(x): in a backward, the gradients of both are added.
  PassSeconds residual() const { return passes(tokens_ * static_cast<double>(shape_.width), 1, 1) + operators(1, 1); }

  PassSeconds products() const {
    const int64_t queries = shape_.queries(), keys = shape_.keys(), width = shape_.width, mlp = shape_.mlp_width;
    PassSeconds into = linear(mlp, width, shape_.has_bias);
    if (shape_.has_gate) into = into + linear(mlp, width, shape_.has_bias);
    PassSeconds projected = linear(queries + 2 * keys, width, shape_.has_bias);
    if (shape_.has_gate) projected = projected + operators(2, 4);  // three products in place of one
    return projected + linear(width, queries, shape_.has_bias) + into + linear(width, mlp, shape_.has_bias);
  }

  PassSeconds elementwise() const { return norm() + residual() + norm() + activation() + residual(); }

  PassSeconds block() const { return products() + attention() + elementwise(); }

  // The forward, but for the last product and addition, whose result no backward reads.
  double again() const {
    return block().forward - linear(shape_.width, shape_.mlp_width, shape_.has_bias).forward - residual().forward;
  }

  // The forward, where each second product and attention are kept.
  double again_selective() const { return products().forward / 2 + elementwise().forward; }

  PassSeconds embedding() const {
    const auto width = static_cast<double>(shape_.width), rows = static_cast<double>(shape_.vocabulary);
    // Its gradient has all rows.
    return passes(tokens_ * width, shape_.positions > 0 ? 2 : 1, 2) + passes(rows * width, 0, kCopy) + operators(6, 8);
  }

  PassSeconds head() const {
    const double logits = tokens_ * static_cast<double>(shape_.vocabulary);
    return norm() + linear(shape_.vocabulary, shape_.width, false) +
           PassSeconds{logits / share_.logit_rate / 2, logits / share_.logit_rate / 2} + operators(12, 12);
  }

 private:
  static constexpr double kCopy = 2.0 / 3, kRead = 1.0 / 3;  // an addition reads two tensors and writes one

  // As many additions of so many elements.
  PassSeconds passes(double elements, double forward, double backward) const {
    const double seconds = elements / rate_at(share_.passes, elements);
    return {forward * seconds, backward * seconds};
  }
  PassSeconds operators(double forward, double backward) const {
    return {forward * share_.operator_seconds, backward * share_.backward_operator_seconds};
  }

  const TransformerShape& shape_;
  const PassShape& pass_;
  const CpuShare& share_;
  double tokens_;
};

WorkTime computing(double seconds) { return {.host = 0, .device = seconds, .joint = seconds}; }

}  // namespace

ShardedStep cpu_step(const ShardedRun& run, const CpuShare& share, const Hardware& hardware) {
  const CpuOperators operators(run.shape, run.pass, share);
  const double factor =
      share.step_factors.empty() ? 1 : rate_at(share.step_factors, static_cast<double>(run.shape.width));
  const auto passes_of = [&](const PassSeconds& pass) {
    return TimedUnit{.forward = computing(factor * pass.forward), .backward = computing(factor * pass.backward)};
  };
  const auto reduction_of = [&](double parameters) {
    const double bytes = parameters * static_cast<double>(run.reduction_element);
    const Ring ring{run.group, 1};
    double reduce = run.group > 1 ? collective_seconds(Collective::ReduceScatter, bytes, ring, hardware) : 0;
    if (run.group < run.ranks)
      reduce += collective_seconds(Collective::AllReduce, bytes / static_cast<double>(run.group),
                                   {run.ranks / run.group, 1}, hardware);
    return reduce;
  };
  ShardedStep step;
  step.root = passes_of(operators.embedding());
  step.root.reduce = reduction_of(static_cast<double>(run.root_parameters()));
  const PassSeconds head = operators.head();
  step.head = computing(factor * (head.forward + head.backward));
  const TimedUnit kept = passes_of(operators.block());
  TimedUnit again = kept;
  const double again_seconds = run.is_selective ? operators.again_selective() : operators.again();
  again.backward = computing(factor * again_seconds).then(kept.backward);
  std::vector<TimedUnit> layers(static_cast<size_t>(run.shape.layers), run.is_selective ? again : kept);
  std::fill_n(layers.begin(), std::clamp<int64_t>(run.recomputed, 0, run.shape.layers), again);
  step.units = units_of_layers(layers, run.layers_per_unit);
  for (TimedUnit& unit : step.units) {
    if (!run.is_one_unit()) unit.reduce = reduction_of(static_cast<double>(unit.layers * run.shape.block_parameters()));
  }
  step.micro_batches = run.micro_batches;
  step.update_seconds =
      static_cast<double>(run.shape.parameters()) / static_cast<double>(run.group) / share.update_rate;
  if (run.clips && run.ranks > 1)
    step.update_seconds += collective_seconds(Collective::AllReduce, 4, {run.ranks, 1}, hardware);
  return step;
}

}  // namespace fsdp::plan
