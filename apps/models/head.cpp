#include "models/head.h"

#include <fsdp/loss.h>
#include <fsdp/tensor_parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "models/parts.h"

namespace models {

namespace nn = torch::nn;
using torch::Tensor;

namespace {

// Rows of a head. If the parts do not divide the vocabulary, the first ones have one row more.
struct Rows {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

Rows rows_of_part(int64_t vocabulary, int parts, int part) {
  const auto begin_of = [&](int64_t number) {
    return vocabulary / parts * number + std::min(number, vocabulary % parts);
  };
  return {begin_of(part), begin_of(part + 1)};
}

Rows rows_of_rank(int64_t vocabulary, const Division& division) {
  if (!division.tensor) return {0, vocabulary};
  const RankParts own = parts_of(division);
  return {rows_of_part(vocabulary, division.parts, own.first).begin,
          rows_of_part(vocabulary, division.parts, own.first + own.count - 1).end};
}

struct HeadImpl : nn::Module {
  explicit HeadImpl(Tensor weight) { register_parameter("weight", std::move(weight)); }
};

struct DividedHeadImpl : HeadImpl, fsdp::DividedModule {
  DividedHeadImpl(Tensor weight, const ModelConfig& config, const Division& division)
      : HeadImpl(std::move(weight)),
        axis_(*division.tensor),
        rows_(rows_of_rank(config.vocabulary, division)),
        shape_{config.vocabulary, config.width} {}

  std::vector<fsdp::ParameterDivision> divisions() const override {
    return {{.parameter = "weight", .shape = shape_, .dim = 0, .ranges = {{rows_.begin, rows_.end}}}};
  }
  const fsdp::World& axis() const override { return axis_; }

 private:
  fsdp::World axis_;
  Rows rows_;
  std::vector<int64_t> shape_;
};

std::shared_ptr<nn::Module> head_of(Tensor weight, const ModelConfig& config, const Division& division) {
  if (!division.tensor) return std::make_shared<HeadImpl>(std::move(weight));
  return std::make_shared<DividedHeadImpl>(std::move(weight), config, division);
}

}  // namespace

std::shared_ptr<nn::Module> make_head(const ModelConfig& config, const Division& division) {
  const auto whole = std::make_shared<nn::LinearImpl>(nn::LinearOptions(config.width, config.vocabulary).bias(false));
  if (!division.tensor) return whole;
  const torch::NoGradGuard no_grad;
  const Rows rows = rows_of_rank(config.vocabulary, division);
  return head_of(whole->weight.narrow(0, rows.begin, rows.count()).clone(), config, division);
}

std::shared_ptr<nn::Module> make_tied_head(const ModelConfig& config, const Division& division) {
  return head_of(torch::empty({rows_of_rank(config.vocabulary, division).count(), config.width}), config, division);
}

Tensor head_weight(const nn::Module& head) { return head.named_parameters(/*recurse=*/false)["weight"]; }

Tensor head_loss(const Tensor& features, const Tensor& weight, const Tensor& targets, const Division& division) {
  return fsdp::linear_cross_entropy(features, weight, targets,
                                    {.check_targets = false, .divided_over = division.tensor, .parts = division.parts});
}

// A product for each part, so that the bits do not depend on the number of ranks.
Tensor head_logits(const Tensor& features, const Tensor& weight, const ModelConfig& config, const Division& division) {
  if (!division.tensor) return torch::linear(features, weight);
  const torch::NoGradGuard no_grad;
  const RankParts own = parts_of(division);
  const int64_t widest = rows_of_part(config.vocabulary, division.parts, 0).count();
  std::vector<Tensor> columns;
  int64_t first = 0;
  for (int part = own.first; part < own.first + own.count; ++part) {
    const int64_t rows = rows_of_part(config.vocabulary, division.parts, part).count();
    const Tensor of_part = torch::linear(features, weight.narrow(0, first, rows).clone());
    columns.push_back(torch::constant_pad_nd(of_part, {0, widest - rows}));
    first += rows;
  }
  fsdp::World axis = *division.tensor;
  std::vector<Tensor> all;
  for (const Tensor& of_rank : axis.all_gather(torch::stack(columns))) {
    for (const Tensor& of_part : of_rank.unbind(0)) {
      const auto part = static_cast<int>(all.size());
      all.push_back(of_part.narrow(-1, 0, rows_of_part(config.vocabulary, division.parts, part).count()));
    }
  }
  return torch::cat(all, -1);
}

}  // namespace models
