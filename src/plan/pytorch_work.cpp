#include "plan/pytorch_work.h"

#include <algorithm>

namespace fsdp::plan {

namespace {

using Works = std::vector<Work>;

// The sizes of one block and micro-batch, and the bytes of their elements.
struct BlockSizes {
  BlockSizes(const TransformerShape& of, const PassShape& run, const Hardware& on)
      : shape(of),
        pass(run),
        hardware(on),
        element(static_cast<double>(run.element)),
        residual(run.has_wide_residual ? 4 : element),
        tokens(static_cast<double>(run.tokens())),
        between(run.tokens_between()),
        width(static_cast<double>(of.width)),
        queries(static_cast<double>(of.queries())),
        keys(static_cast<double>(of.keys())),
        mlp(static_cast<double>(of.mlp_width)) {}

  // Llama's blocks as they are published: separate products for queries, keys, values and the gate.
  bool is_separate() const { return !shape.has_layer_norm; }
  bool has_single_norm() const { return pass.is_fused || shape.has_layer_norm; }

  const TransformerShape& shape;
  const PassShape& pass;
  const Hardware& hardware;
  double element, residual, tokens, between, width, queries, keys, mlp;
};

Work norm_forward(const BlockSizes& s) {
  return s.has_single_norm() ? memory_pass(2 * s.residual * s.between * s.width)
                             : memory_pass(26 * s.between * s.width, 6);
}
Work norm_backward(const BlockSizes& s) {
  return s.has_single_norm() ? memory_pass(5 * s.residual * s.between * s.width, 2)
                             : memory_pass(50 * s.between * s.width, 12);
}

Works rotary(const BlockSizes& s) {
  if (!s.shape.has_rotary) return {};
  const double elements = s.tokens * (s.queries + s.keys);
  return {s.pass.is_fused ? memory_pass(2 * s.element * elements, 2) : memory_pass(20 * elements, 8)};
}

Work activation_forward(const BlockSizes& s) {
  const double bytes = s.element * s.tokens * s.mlp;
  if (!s.shape.has_gate) return memory_pass(2 * bytes);
  return s.pass.is_fused ? memory_pass(3 * bytes) : memory_pass(5 * bytes, 2);
}
Work activation_backward(const BlockSizes& s) {
  const double bytes = s.element * s.tokens * s.mlp;
  if (!s.shape.has_gate) return memory_pass(3 * bytes);
  return s.pass.is_fused ? memory_pass(5 * bytes) : memory_pass(9 * bytes, 3);
}

struct AttentionWork {
  Works forward, backward;
};

// Heads narrower than 128 and short sequences reach a smaller share of the rate. In fp32 the kernels reach half of the
// products' rate.
AttentionWork flash_attention(const BlockSizes& s) {
  const auto sequence = static_cast<double>(s.pass.sequence);
  const double operations = 4 * s.tokens * sequence * s.queries * (s.shape.is_causal ? 0.5 : 1);
  const double of_width = 0.7 + 0.3 * std::min(1.0, static_cast<double>(s.shape.head_width) / 128);
  const double share = of_width * sequence / (sequence + 512);
  const bool is_wide = s.pass.element == 4;
  const double wide_rate = s.hardware.wide_product_rate / 2;
  return {.forward = {{.attention = operations,
                       .attention_rate = is_wide ? wide_rate : s.hardware.attention_forward_rate * share}},
          .backward = {{.attention = 2.5 * operations,
                        .attention_rate = is_wide ? wide_rate : s.hardware.attention_backward_rate * share,
                        .kernels = 3}}};
}

// Scores lie in memory.
AttentionWork attention_in_steps(const BlockSizes& s) {
  const int64_t sequence = s.pass.sequence, heads = s.pass.batch * s.shape.heads;
  const double scores = s.element * static_cast<double>(heads) * static_cast<double>(sequence * sequence);
  const Work scored = product(sequence, sequence, s.shape.head_width, heads);
  const Work summed = product(sequence, s.shape.head_width, sequence, heads);
  AttentionWork work{.forward = {scored, memory_pass(6.5 * scores, 4), summed}, .backward = gradients_of({summed})};
  work.backward.push_back(memory_pass(8.5 * scores, 4));
  append(work.backward, gradients_of({scored}));
  return work;
}

Works products(const BlockSizes& s) {
  const int64_t tokens = s.pass.tokens(), width = s.shape.width, queries = s.shape.queries();
  return {product(tokens, queries + 2 * s.shape.keys(), width), product(tokens, width, queries),
          product(tokens, (s.shape.has_gate ? 2 : 1) * s.shape.mlp_width, width),
          product(tokens, width, s.shape.mlp_width)};
}

// Copies of fp32 parameters that autocast makes.
Works casts(const BlockSizes& s) {
  if (!s.pass.has_wide_residual) return {};
  return {memory_pass(6 * static_cast<double>(s.shape.block_parameters()), 2)};
}

Works elementwise(const BlockSizes& s) {
  const Work add = memory_pass(3 * s.residual * s.between * s.width);
  Works works = {norm_forward(s)};
  append(works, rotary(s));
  append(works, {memory_pass(s.is_separate() ? 0 : 2 * s.element * s.tokens * s.queries, 2), add, norm_forward(s),
                 activation_forward(s), add, launches(s.is_separate() ? 3 : 0)});
  append(works, casts(s));
  return works;
}

Works backward(const BlockSizes& s, const Works& attention) {
  const Work add = memory_pass(3 * s.residual * s.between * s.width);
  Works works = gradients_of(products(s));
  append(works, attention);
  works.push_back(norm_backward(s));
  append(works, rotary(s));
  append(works,
         {memory_pass(3 * s.element * s.tokens * (s.queries + 2 * s.keys), 2), add, norm_backward(s),
          activation_backward(s), add, memory_pass(s.is_separate() ? 4.5 * s.element * s.tokens * s.width : 0, 2),
          launches((s.is_separate() ? 6 : 0) + static_cast<double>(s.shape.block_tensors()) / 2)});
  append(works, casts(s));
  if (s.shape.has_bias)
    works.push_back(memory_pass(s.element * s.tokens * (s.queries + 2 * s.keys + 2 * s.width + s.mlp), 4));
  return works;
}

}  // namespace

BlockWork pytorch_block(const TransformerShape& shape, const PassShape& pass, const Hardware& hardware) {
  const BlockSizes s(shape, pass, hardware);
  const AttentionWork attention = pass.is_flash ? flash_attention(s) : attention_in_steps(s);
  BlockWork work;
  work.forward = products(s);
  append(work.forward, elementwise(s));
  append(work.forward, attention.forward);
  work.backward = backward(s, attention.backward);
  for (const Work& one : products(s)) work.weight_gradient.push_back(gradients_of({one}).back());
  work.again_selective = elementwise(s);
  for (Work half : products(s)) {
    half.rate *= 2;
    work.again_selective.push_back(half);
  }
  return work;
}

EndsWork pytorch_ends(const TransformerShape& shape, const PassShape& pass) {
  const int64_t t = pass.tokens();
  const auto element = static_cast<double>(pass.element), tokens = static_cast<double>(t);
  const auto width = static_cast<double>(shape.width), vocabulary = static_cast<double>(shape.vocabulary);
  // A product whose rows are not aligned to 16 bytes is slower.
  const Work head = product(t, shape.vocabulary, shape.width, 1, shape.vocabulary % 8 == 0 ? 1 : kUnalignedRate);
  const bool widens = pass.has_wide_loss && pass.element == 2;
  const double fusion = pass.is_fused ? 0.6 : 1;
  EndsWork work;
  work.embedding_forward = {memory_pass(2 * element * tokens * width, 3)};
  work.embedding_backward = {memory_pass(element * vocabulary * width + 4 * element * tokens * width, 4)};
  work.head_forward = {memory_pass(2 * element * tokens * width), head,
                       memory_pass(fusion * (widens ? 16 : 3 * element) * tokens * vocabulary, 4)};
  work.head_backward = {memory_pass(fusion * (widens ? 22 : 4 * element) * tokens * vocabulary, 4)};
  append(work.head_backward, gradients_of({head}));
  work.head_backward.push_back(memory_pass(5 * element * tokens * width, 3));
  return work;
}

}  // namespace fsdp::plan
