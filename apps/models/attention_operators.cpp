#include "models/attention_operators.h"

#include <string>
#include <utility>
#include <vector>

namespace models {

using fsdp::plan::Kernel;
using fsdp::plan::Operator;
using fsdp::plan::OperatorKind;

namespace {

using Number = GraphBuilder::Number;

constexpr double kSoftmaxFlops = 5;

const std::string kName = "attn";

int64_t attending_heads(const RankSizes& sizes) { return sizes.batch * sizes.heads; }

Kernel scores_kernel(const RankSizes& sizes, int64_t element) {
  return product_kernel(sizes.length, sizes.length, sizes.head_width, attending_heads(sizes), element);
}

Kernel mixing_kernel(const RankSizes& sizes, int64_t element) {
  return product_kernel(sizes.length, sizes.head_width, sizes.length, attending_heads(sizes), element);
}

// Their operands are read once, and no score is written.
std::vector<Kernel> in_one_kernel(std::vector<Kernel> products, int64_t bytes_read, int64_t bytes_written) {
  for (Kernel& product : products) product.bytes_read = product.bytes_written = 0;
  products[0].bytes_read = bytes_read;
  products[0].bytes_written = bytes_written;
  return products;
}

// Attention whose scores are a tensor, in elements of so many bytes.
class UnfusedAttention {
 public:
  UnfusedAttention(GraphBuilder& graph, int64_t element) : graph_(graph), sizes_(graph.sizes()), element_(element) {}

  // A copy in another order, dtype, or for each head: the backward needs nothing of it.
  Number copy(const std::string& name, Number x, int64_t element) {
    const Number result = tensor(name, sizes_.rows * sizes_.heads * sizes_.head_width, element);
    graph_.add({.name = kName + name,
                .reads = {x},
                .writes = {result},
                .forward = {pass_kernel(0, gradient_bytes(x), graph_.bytes_of(result))},
                .input_gradient = {pass_kernel(0, graph_.bytes_of(result), gradient_bytes(x))}});
    return result;
  }

  // The product keeps `kept`, which is the memory of its factors.
  Number probabilities(const std::vector<Number>& factors, const std::vector<Number>& kept) {
    const Number scores = tensor(".scores", numel_of_scores(), element_);
    add_product(".scores", factors, kept, scores, scores_kernel(sizes_, element_), mixing_kernel(sizes_, element_));
    const Number probabilities = tensor(".softmax", numel_of_scores(), element_);
    const int64_t bytes = graph_.bytes_of(scores);
    const double flops = kSoftmaxFlops * static_cast<double>(numel_of_scores());
    graph_.add({.name = kName + ".softmax",
                .kind = OperatorKind::Normalisation,
                .reads = {scores},
                .writes = {probabilities},
                .keeps = {probabilities},
                .forward = {pass_kernel(flops, bytes, bytes)},
                .input_gradient = {pass_kernel(flops, 2 * bytes, bytes)}});
    return probabilities;
  }

  Number dropped(Number probabilities) {
    const double share = graph_.config().attention_dropout;
    if (share == 0 || graph_.micro_batch().evaluates) return probabilities;
    const int64_t bytes = graph_.bytes_of(probabilities);
    const int64_t mask_bytes = graph_.micro_batch().on_gpus ? numel_of_scores() : bytes;
    const Number mask = graph_.data(kName + ".mask", mask_bytes);
    const Number result = tensor(".dropped", numel_of_scores(), element_);
    const auto flops = static_cast<double>(numel_of_scores());
    graph_.add({.name = kName + ".dropout",
                .reads = {probabilities},
                .writes = {mask, result},
                .keeps = {mask},
                .draws_random = true,
                .forward = {pass_kernel(flops, bytes, bytes + mask_bytes)},
                .input_gradient = {pass_kernel(flops, bytes + mask_bytes, bytes)}});
    return result;
  }

  Number mixed(Number probabilities, Number values, Number kept_values) {
    const Number result = tensor(".mixed", sizes_.rows * sizes_.heads * sizes_.head_width, element_);
    add_product(".mixed", {probabilities, values}, {probabilities, kept_values}, result,
                mixing_kernel(sizes_, element_), scores_kernel(sizes_, element_));
    return result;
  }

 private:
  int64_t gradient_bytes(Number x) { return graph_.tensor(x).gradient_bytes; }  // of a view as well
  int64_t numel_of_scores() const { return attending_heads(sizes_) * sizes_.length * sizes_.length; }

  Number tensor(const std::string& name, int64_t numel, int64_t element) {
    return graph_.result(kName + name, numel * element);
  }

  // `other` is the kernel of the gradient of the first factor.
  void add_product(const std::string& name, const std::vector<Number>& factors, const std::vector<Number>& kept,
                   Number result, const Kernel& product, const Kernel& other) {
    graph_.add({.name = kName + name,
                .kind = OperatorKind::Product,
                .reads = factors,
                .writes = {result},
                .keeps = kept,
                .kept_for = kept.size() == 2 ? fsdp::plan::KeptFor::Other : fsdp::plan::KeptFor::Any,
                .forward = {product},
                .input_gradient = {other, mixing_kernel(sizes_, element_)}});
  }

  GraphBuilder& graph_;
  const RankSizes& sizes_;
  int64_t element_;
};

Number add_fused(GraphBuilder& graph, const AttentionInput& input) {
  const RankSizes& sizes = graph.sizes();
  const Number mixed = graph.activation(kName, sizes.rows * sizes.heads * sizes.head_width);
  const Number rows = graph.data(kName + ".logsumexp", kFloatBytes * attending_heads(sizes) * sizes.length);
  const std::vector<Number> inputs{input.queries, input.keys, input.values};
  std::vector<Number> kept = input.joined ? std::vector{*input.joined} : inputs;
  int64_t read = 0;
  for (const Number each : kept) read += graph.bytes_of(each);
  kept.insert(kept.end(), {mixed, rows});
  const int64_t result = graph.bytes_of(mixed), element = sizes.element;
  Kernel again = scores_kernel(sizes, element);
  again.is_again = true;
  const Kernel scores = scores_kernel(sizes, element), mixing = mixing_kernel(sizes, element);
  graph.add({.name = kName,
             .kind = OperatorKind::Attention,
             .reads = inputs,
             .writes = {mixed, rows},
             .keeps = std::move(kept),
             .draws_random = graph.config().attention_dropout > 0,
             .forward = in_one_kernel({scores, mixing}, read, result),
             // Gradients of the values, the probabilities, the queries and the keys.
             .input_gradient = in_one_kernel({again, mixing, scores, mixing, mixing}, read + 3 * result, read)});
  const bool is_in_order = !input.by_heads || sizes.heads == 1 || sizes.length == 1;
  if (is_in_order) return mixed;
  const Number copy = UnfusedAttention(graph, element).copy(".in_order", mixed, element);
  graph.latest().passes_gradient = true;
  return copy;
}

// Tensors of LibTorch's attention on CPUs that are there when it multiplies the values, and that autograd does not
// keep: its inputs, casts, scaled factors, the mask, and both results in the dtype of activations.
int64_t bytes_beside_mixing(GraphBuilder& graph, const AttentionInput& input, bool copies) {
  const RankSizes& sizes = graph.sizes();
  const bool are_floats = sizes.element == kFloatBytes, is_shared = sizes.heads != sizes.key_value_heads;
  const int64_t of_queries = kFloatBytes * sizes.rows * sizes.heads * sizes.head_width;
  const int64_t of_keys = of_queries / sizes.heads * sizes.key_value_heads;
  const bool keeps_values = are_floats && !is_shared && !copies;
  int64_t bytes = kFloatBytes * sizes.length * sizes.length;
  for (const Number each : {input.queries, input.keys, input.values})
    bytes += each == input.values && keeps_values ? 0 : graph.tensor(each).gradient_bytes;
  if (copies) bytes += of_queries;     // scaled queries
  if (is_shared) bytes += of_queries;  // keys of all heads
  if (are_floats) return bytes;
  const int64_t of_scores = attending_heads(sizes) * sizes.length * sizes.length * sizes.element;
  return bytes + of_keys + (copies || is_shared ? of_keys : 0) + of_scores + of_queries / 2;
}

// LibTorch's own on CPUs, in fp32. A product of matrices whose heads lie beside each other first copies them, unless
// there is one head or one sequence alone.
Number add_unfused_on_cpu(GraphBuilder& graph, const AttentionInput& input) {
  const RankSizes& sizes = graph.sizes();
  const bool are_floats = sizes.element == kFloatBytes, is_shared = sizes.heads != sizes.key_value_heads;
  const bool copies = sizes.batch > 1 && sizes.heads > 1 && sizes.length > 1;
  UnfusedAttention attention(graph, kFloatBytes);
  const Number queries = attention.copy(".queries", input.queries, kFloatBytes);
  const Number keys = attention.copy(".keys", input.keys, kFloatBytes);
  const Number probabilities = attention.dropped(attention.probabilities({queries, keys}, {queries, keys}));
  const bool are_copied = !are_floats || is_shared || copies;
  const Number values = are_copied ? attention.copy(".values", input.values, kFloatBytes) : input.values;
  const Number mixed = attention.mixed(probabilities, values, are_copied ? values : input.joined.value_or(values));
  graph.latest().forward_bytes = bytes_beside_mixing(graph, input, copies);
  const bool is_in_order = sizes.heads == 1 || sizes.length == 1;
  return are_floats && is_in_order ? mixed : attention.copy("", mixed, sizes.element);
}

Number add_unfused_on_gpu(GraphBuilder& graph, const AttentionInput& input) {
  const RankSizes& sizes = graph.sizes();
  UnfusedAttention attention(graph, sizes.element);
  const bool is_shared = sizes.heads != sizes.key_value_heads;
  const Number keys = is_shared ? attention.copy(".keys", input.keys, sizes.element) : input.keys;
  const Number values = is_shared ? attention.copy(".values", input.values, sizes.element) : input.values;
  const std::vector<Number> factors{input.queries, keys};
  const Number kept_values = input.joined.value_or(values);
  const Number probabilities =
      attention.dropped(attention.probabilities(factors, input.joined ? std::vector{*input.joined} : factors));
  return attention.copy("", attention.mixed(probabilities, values, kept_values), sizes.element);
}

// Parts are computed in tensors of their own, and put together.
Number joined(GraphBuilder& graph, Number mixed) {
  if (graph.sizes().parts == 1) return mixed;
  return UnfusedAttention(graph, graph.sizes().element).copy(".joined", mixed, graph.sizes().element);
}

}  // namespace

size_t add_attention(GraphBuilder& graph, const AttentionInput& input) {
  const bool on_gpus = graph.micro_batch().on_gpus;
  const bool drops = graph.config().attention_dropout > 0 && !graph.micro_batch().evaluates;
  const bool is_fused = graph.micro_batch().attention == AttentionKind::Fused && (on_gpus || !drops);
  const auto mixed_by = [&](const auto& attention) { return joined(graph, attention(graph, input)); };
  if (is_fused) return mixed_by(add_fused);
  return on_gpus ? mixed_by(add_unfused_on_gpu) : mixed_by(add_unfused_on_cpu);
}

}  // namespace models
