#include "pipeline/tied_shards.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "interpose/piece_gradient.h"
#include "interpose/piece_storage.h"

namespace fsdp::pipeline {

torch::Tensor values_of(engine::Model& model, const torch::Tensor& parameter) {
  const int id = engine::Model::unit_holding(parameter);
  const engine::ShardedUnit& unit = *model.units()[id];
  const auto found =
      std::ranges::find_if(unit.parameters, [&](const auto& held) { return held.tensor().is_same(parameter); });
  model.begin_read("a step of the pipeline");
  return unit.view(model.gather_whole(id), found - unit.parameters.begin());
}

ShardedGradient::ShardedGradient(std::shared_ptr<engine::Model> model, const torch::Tensor& parameter)
    : model_(std::move(model)) {
  for (const auto& unit : model_->units()) {
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      if (unit->parameters[i].tensor().is_same(parameter)) index_ = unit->first_piece + i;
    }
  }
}

torch::Tensor ShardedGradient::whole() const {
  const interpose::Unwatched ours;
  const torch::Tensor& gradient = interpose::gradient_of(piece().piece);
  const int64_t numel = c10::multiply_integers(piece().shape);
  if (model_->shards() == 1) return gradient.defined() ? interpose::plain(gradient) : torch::Tensor();
  // Pieces differ in length, and all_gather takes one shape.
  const auto place = torch::tensor({piece().offset, piece().piece.numel(), int64_t{gradient.defined()}});
  const auto places = model_->group().all_gather(place);
  int64_t longest = 0;
  bool any = false;
  for (const torch::Tensor& one : places) {
    longest = std::max(longest, one[1].item<int64_t>());
    any = any || one[2].item<int64_t>() != 0;
  }
  if (!any) return {};
  torch::Tensor own = torch::zeros({longest}, piece().piece.options().dtype(torch::kFloat32));
  if (gradient.defined()) own.narrow(0, 0, gradient.numel()).copy_(interpose::plain(gradient));
  const auto pieces = model_->group().all_gather(own);
  torch::Tensor whole = torch::zeros({numel}, own.options());
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    const auto offset = places[rank][0].item<int64_t>(), length = places[rank][1].item<int64_t>();
    whole.narrow(0, offset, length).copy_(pieces[rank].narrow(0, 0, length));
  }
  return whole;
}

void ShardedGradient::write(const torch::Tensor& whole) const {
  const interpose::Unwatched ours;
  const torch::Tensor& gradient = interpose::gradient_of(piece().piece);
  FSDP_CHECK(gradient.defined() == whole.defined() || piece().piece.numel() == 0,
             "Pipeline: the tied parameter {} of a sharded stage has a gradient in another block and not in this one, "
             "whose forward did not use it. Use it in each block that shares it, or leave it out of shares.",
             piece().name);
  if (whole.defined() && gradient.defined())
    interpose::plain(gradient).copy_(whole.narrow(0, piece().offset, gradient.numel()));
}

}  // namespace fsdp::pipeline
