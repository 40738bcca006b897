// Activations from a model's operators, beside those of LibTorch's autograd, tensor by tensor and in their sum.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/activations.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "apps/planning/graph_runs.h"
#include "models/language_model.h"
#include "options/frozen.h"
#include "plan/activations.h"
#include "plan/frozen_parameters.h"
#include "planning/generator_kept.h"
#include "planning/planned_activations.h"
#include "planning/run_graphs.h"
#include "run/sharding.h"

namespace trainer {
namespace {

using fsdp::KeptResults;
using fsdp::plan::Graph;
using fsdp::plan::ModelGraphs;
using models::Family;
using models::ModelConfig;

// Kept tensors of pieces, by their names, "layer 0: mlp.c_fc"; the largest first.
using NamedBytes = std::vector<std::pair<int64_t, std::string>>;

class KeptByGraphs {
 public:
  void add(const std::string& piece, const Graph& graph, const std::vector<size_t>& tensors) {
    for (const size_t number : tensors) {
      const auto& [name, bytes, gradient_bytes, is_common, stays_in_memory] = graph.tensors[number];
      if (bytes > 0) kept_[(is_common ? "" : piece + ": ") + name] = bytes;
    }
  }
  NamedBytes sorted() const {
    NamedBytes named;
    for (const auto& [name, bytes] : kept_) named.emplace_back(bytes, name);
    std::ranges::sort(named, std::greater());
    return named;
  }

 private:
  std::map<std::string, int64_t> kept_;
};

void add_layers(KeptByGraphs& kept, const ModelGraphs& graphs, const std::vector<KeptResults>& layers, size_t end) {
  for (size_t i = 0; i < end; ++i)
    kept.add(fmt::format("layer {}", i), graphs.graph_of_layer(i), kept_tensors(graphs.graph_of_layer(i), layers[i]));
}

// At the end of the forward.
NamedBytes planned_forward(const ModelGraphs& graphs, const std::vector<KeptResults>& layers) {
  KeptByGraphs kept;
  kept.add("embedding", graphs.embedding, kept_tensors(graphs.embedding, KeptResults::All));
  add_layers(kept, graphs, layers, layers.size());
  kept.add("norm", graphs.norm, kept_tensors(graphs.norm, KeptResults::All));
  kept.add("head", graphs.head, kept_tensors(graphs.head, KeptResults::All));
  return kept.sorted();
}

// When the backward of a layer begins.
NamedBytes planned_backward(const ModelGraphs& graphs, const std::vector<KeptResults>& layers, size_t layer) {
  KeptByGraphs kept;
  kept.add("embedding", graphs.embedding, kept_tensors(graphs.embedding, KeptResults::All));
  add_layers(kept, graphs, layers, layer);
  const Graph& graph = graphs.graph_of_layer(layer);
  kept.add(fmt::format("layer {}", layer), graph, backward_tensors(graph, layers[layer]));
  return kept.sorted();
}

// Moments of a step's forward alone, and of all of it.
struct MeasuredStep {
  explicit MeasuredStep(const RunOptions& options) {
    const GeneratorKept generator;
    const auto model = models::make_model(options.model);
    const std::set<std::string> frozen = frozen_parameters(options);
    for (auto& parameter : model->named_parameters()) {
      if (frozen.contains(parameter.key())) parameter.value().set_requires_grad(false);
    }
    model->set_recomputation(options.recomputation());
    model->to(compute_dtype_of(options));
    const std::vector<int64_t> shape = {options.batch, options.model.context};
    const torch::Tensor tokens = torch::zeros(shape, torch::kInt64), targets = torch::zeros(shape, torch::kInt64);
    forward = fsdp::preview_activations(*model, [&] { return model->loss(tokens, targets); }).back();
    const auto step = [&] {
      torch::Tensor loss = model->loss(tokens, targets);
      loss.backward();
      return loss;
    };
    all = fsdp::preview_activations(*model, step);
    if (options.offload_activations) offloaded = fsdp::preview_offload(*model, step);
  }

  int64_t peak() const {
    int64_t most = 0;
    for (const fsdp::KeptStorages& moment : all)
      most = std::max(most, std::accumulate(moment.begin(), moment.end(), int64_t{0}));
    return most;
  }

  fsdp::KeptStorages forward;
  std::vector<fsdp::KeptStorages> all;
  std::vector<fsdp::OffloadedMoment> offloaded;
};

std::vector<int64_t> bytes_of(const NamedBytes& named) {
  std::vector<int64_t> bytes;
  for (const auto& [each, name] : named) bytes.push_back(each);
  return bytes;
}

// Names the operators whose tensors are there in one of them alone.
std::string difference(const NamedBytes& planned, const fsdp::KeptStorages& measured) {
  std::map<int64_t, std::vector<std::string>> names;
  std::map<int64_t, int64_t> surplus;
  for (const auto& [bytes, name] : planned) names[bytes].push_back(name), ++surplus[bytes];
  for (const int64_t bytes : measured) --surplus[bytes];
  std::string text;
  for (const auto& [bytes, number] : surplus) {
    if (number != 0)
      text += fmt::format("{:+} of {} bytes (planned: {})\n", number, bytes, fmt::join(names[bytes], ", "));
  }
  return text;
}

void expect_the_peak(const RunOptions& options, const MeasuredStep& measured) {
  EXPECT_EQ(planned_activations(options, false).in_memory, static_cast<double>(measured.peak()));
}
void expect_the_peak(const RunOptions& options) { expect_the_peak(options, MeasuredStep(options)); }

// And their sum at the peak.
void expect_the_storages(const RunOptions& options) {
  const ModelGraphs graphs = run_graphs(options, false);
  const std::vector<KeptResults> layers = kept_by_layers(options);
  const MeasuredStep measured(options);
  expect_the_peak(options, measured);
  const NamedBytes forward = planned_forward(graphs, layers);
  EXPECT_EQ(bytes_of(forward), measured.forward) << difference(forward, measured.forward);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const bool has_backward = output_has_gradient(graphs.graph_of_layer(layer));
    if (layers[layer] == KeptResults::All || !has_backward) continue;
    const NamedBytes backward = planned_backward(graphs, layers, layer);
    const auto has = std::ranges::find(measured.all, bytes_of(backward)) != measured.all.end();
    EXPECT_TRUE(has) << "layer " << layer << "\n" << difference(backward, measured.all.back());
  }
}

class GraphActivations : public ::testing::TestWithParam<NamedModel> {};

TEST_P(GraphActivations, AreTheTensorsThatAutogradKeeps) { for_each_run(GetParam(), expect_the_storages); }

class OffloadedGraphActivations : public GraphActivations {};  // a suite of its own

// Inputs of layers are larger than 64 KiB: a tiny one would be in memory twice here. Statistics of norms are smaller.
TEST_P(OffloadedGraphActivations, AreThosePlannedToTheByte) {
  NamedModel model = GetParam();
  model.config.context = 512;
  model.config.width = model.config.family == Family::Gpt2 ? 80 : 84;
  for_each_run(model, [&](RunOptions options) {
    if (options.batch > 1 && options.param_dtype == "bf16") return;  // long where bf16 is slow
    options.offload_activations = true;
    PlannedActivations most;
    for (const fsdp::OffloadedMoment& moment : MeasuredStep(options).offloaded) {
      PlannedActivations now;
      for (const int64_t bytes : moment.in_memory) now.in_memory += static_cast<double>(bytes);
      for (const int64_t bytes : moment.offloaded)
        (bytes < fsdp::kLeastOffloadBytes ? now.in_memory : now.in_files) += static_cast<double>(bytes);
      most = {std::max(most.in_memory, now.in_memory), std::max(most.in_files, now.in_files)};
    }
    const PlannedActivations planned = planned_activations(options, false);
    EXPECT_EQ(planned.in_files, most.in_files);
    EXPECT_EQ(planned.in_memory, most.in_memory);
  });
}

// Patterns of --freeze, or targets of --lora.
TEST_P(GraphActivations, OfFrozenParametersAreTheTensorsThatAutogradKeeps) {
  const bool is_gpt2 = GetParam().config.family == Family::Gpt2;
  const std::vector<std::string> patterns =
      is_gpt2 ? std::vector<std::string>{"transformer.h.1,*.mlp.*", "transformer.wte.weight,transformer.wpe.weight",
                                         "transformer.wte,transformer.wpe,transformer.h.0,transformer.h.1", "*.weight",
                                         "transformer.h.*.ln_1.*,*.attn.c_attn.*"}
              : std::vector<std::string>{"model.layers.1,*.mlp.*", "model.embed_tokens,model.layers.0", "*norm*",
                                         "model.embed_tokens,*_proj.weight", "*.q_proj.*,*.gate_proj.*"};
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    for_each_run(GetParam(), [&](RunOptions options) {
      options.freeze = pattern;
      expect_the_storages(options);
    });
  }
}

TEST_P(GraphActivations, OfAdaptersAreTheTensorsThatAutogradKeeps) {
  const bool is_gpt2 = GetParam().config.family == Family::Gpt2;
  const std::vector<std::vector<std::string>> targets =
      is_gpt2 ? std::vector<std::vector<std::string>>{{"c_attn", "mlp.c_proj"}, {"h.1.attn.c_attn"}, {"c_fc", "c_proj"}}
              : std::vector<std::vector<std::string>>{{"q_proj", "v_proj"}, {"1.mlp.up_proj"}, {"gate_proj", "o_proj"}};
  for (const std::vector<std::string>& layers : targets) {
    for (const double dropout : {0.0, 0.1}) {
      SCOPED_TRACE(fmt::format("{}, dropout {}", fmt::join(layers, " "), dropout));
      for_each_run(GetParam(), [&](RunOptions options) {
        options.model.lora = models::Lora{.rank = 3, .dropout = dropout, .targets = layers};
        expect_the_storages(options);
      });
    }
  }
}

// More than the loss has room for: it keeps some chunks of them.
TEST(GraphActivationsWith, ManyLogits) {
  RunOptions options;
  options.model = {.vocabulary = 200'003, .context = 24, .width = 8, .layers = 1, .heads = 1};
  for (const auto& [dtype, batch] : {std::pair("fp32", 4), {"bf16", 7}, {"bf16", 8}, {"fp16", 4}, {"fp16", 9}}) {
    SCOPED_TRACE(fmt::format("{}, batch {}", dtype, batch));
    options.param_dtype = dtype;
    options.batch = batch;
    expect_the_peak(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GraphActivations, drawn_sample_models(), name_of_sample);
INSTANTIATE_TEST_SUITE_P(Models, OffloadedGraphActivations, drawn_sample_models(), name_of_sample);

}  // namespace
}  // namespace trainer
