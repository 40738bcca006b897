#include "api/tensor_parallel/whole_values.h"

#include <map>
#include <vector>

#include "base/error.h"
#include "base/rank_names.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

constexpr int64_t kAtOnce = int64_t{1} << 20;
constexpr int64_t kOddFactor = -7046029254386353131;  // 2^64 over the golden ratio

// Each element's bits times an odd number of its place, summed modulo 2^64: hashes of pieces add up to the parameter's.
int64_t hash_of_piece(const ShardedParameter& parameter) {
  uint64_t hash = 0;
  int64_t place = parameter.offset;
  for (const torch::Tensor& part : interpose::plain(parameter.piece).split(kAtOnce)) {
    if (part.numel() == 0) continue;
    const torch::Tensor bits = part.view(torch::kInt32).to(torch::kInt64);
    const torch::Tensor places = torch::arange(place, place + part.numel(), bits.options());
    hash += static_cast<uint64_t>((bits * (places * kOddFactor * 2 + 1)).sum().item<int64_t>());
    place += part.numel();
  }
  return static_cast<int64_t>(hash);
}

// Hashes of this rank's pieces, by name, so that the order is the same on every rank of the axis.
std::map<std::string, int64_t> hashes_of_pieces(const engine::Model& model, const TensorAxis& axis) {
  const torch::NoGradGuard no_grad;
  const interpose::Unwatched ours;
  const std::vector<bool> missing = model.missing_values();
  std::map<std::string, int64_t> hashes;
  for (const auto& unit : model.units()) {
    for (size_t i = 0; i < unit->parameters.size(); ++i) {
      const size_t number = unit->first_piece + i;
      if (axis.division_of(unit->parameters[i].tensor()) != nullptr || (!missing.empty() && missing[number])) continue;
      hashes[model.parameters()[number].name] = hash_of_piece(model.parameters()[number]);
    }
  }
  return hashes;
}

}  // namespace

void check_whole_values(const engine::Model& model, TensorAxis& axis) {
  std::vector<int64_t> own;
  const std::map<std::string, int64_t> hashes = hashes_of_pieces(model, axis);
  for (const auto& [name, hash] : hashes) own.push_back(hash);
  torch::Tensor whole = torch::tensor(own, torch::kInt64);
  if (model.shards() > 1) {
    std::vector<torch::Tensor> all = model.group().all_gather(whole);
    all.resize(model.shards());
    whole = torch::stack(all).sum(0);
  }
  const std::vector<torch::Tensor> of_ranks = axis.all_gather(whole);
  int64_t number = 0;
  for (const auto& [name, hash] : hashes) {
    for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
      FSDP_CHECK(of_ranks[rank][number].item<int64_t>() == of_ranks[0][number].item<int64_t>(),
                 "shard: the values of {} differ between {} and {}, which hold it whole beside the parts of divided "
                 "layers. Call torch::manual_seed with the same number on every rank before the module is made. A "
                 "parameter that each rank has another part of belongs to a DividedModule.",
                 name, text_of_rank(job_ranks(axis.axis())[0]), text_of_rank(job_ranks(axis.axis())[rank]));
    }
    ++number;
  }
}

}  // namespace fsdp
