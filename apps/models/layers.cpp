#include "models/layers.h"

#include <fsdp/collectives.h>

#include <utility>

#include "models/adaptable_linear.h"

namespace models {

namespace nn = torch::nn;
using torch::Tensor;

namespace {

fsdp::TensorParallelOptions parallel_options(const Division& division) {
  return {.parts = division.parts, .sequence_parallel = division.sequence_parallel};
}

template <typename Holder>
Layer registered(nn::Module& parent, const std::string& name, const Holder& layer) {
  parent.register_module(name, layer);
  return [layer = layer.ptr()](const Tensor& x) { return layer->forward(x); };
}

}  // namespace

Layer column_layer(nn::Module& parent, const std::string& name, const nn::LinearOptions& options,
                   const Division& division, std::vector<fsdp::FeatureBlock> blocks) {
  if (!division.tensor) return registered(parent, name, AdaptableLinear(options));
  fsdp::TensorParallelOptions parallel = parallel_options(division);
  parallel.blocks = std::move(blocks);
  return registered(parent, name, fsdp::ColumnParallelLinear(options, *division.tensor, std::move(parallel)));
}

Layer row_layer(nn::Module& parent, const std::string& name, const nn::LinearOptions& options,
                const Division& division) {
  if (!division.tensor) return registered(parent, name, AdaptableLinear(options));
  return registered(parent, name, fsdp::RowParallelLinear(options, *division.tensor, parallel_options(division)));
}

Tensor norm_of_slices(const Tensor& x, const std::vector<Tensor>& parameters, const Division& division,
                      const NormFunction& norm) {
  if (!division.tensor) return norm(x, parameters);
  return fsdp::on_sequence_slices(x, parameters, *division.tensor, parallel_options(division), norm);
}

Tensor whole_sequence(const Tensor& x, const Division& division) {
  if (!division.tensor || !division.sequence_parallel || division.tensor->size() == 1) return x;
  return fsdp::differentiable::all_gather(x, *division.tensor, 1, fsdp::differentiable::ResultUse::Alike);
}

std::shared_ptr<nn::Module> make_embedding(int64_t entries, int64_t width, const Division& division) {
  if (!division.tensor) return std::make_shared<nn::EmbeddingImpl>(entries, width);
  return std::make_shared<fsdp::ParallelEmbeddingImpl>(nn::EmbeddingOptions(entries, width), *division.tensor,
                                                       parallel_options(division));
}

Tensor embed(nn::Module& embedding, const Tensor& tokens) {
  if (auto* plain = embedding.as<nn::EmbeddingImpl>()) return plain->forward(tokens);
  return dynamic_cast<fsdp::ParallelEmbeddingImpl&>(embedding).forward(tokens);
}

}  // namespace models
