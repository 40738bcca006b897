#include "planning/planned_blocks.h"

#include <algorithm>

#include "models/block_costs.h"
#include "planning/options_of_rank.h"

namespace trainer {

namespace {

// Sizes of tensors between divided layers.
constexpr std::array kBetweenLayers = {kSharedPlace, kKeyValueHeadsPlace, kHeadWidthPlace, kMlpWidthPlace,
                                       kVocabularyPlace};

// A block of the model with as many layers, as a block of one with one layer.
struct TinyBlock {
  int number = 0;
  bool is_layer = false, is_head = false, is_embedding = false;
  int64_t layer = 0;
};

TinyBlock tiny_block_of(const models::ModelConfig& model, int block) {
  const std::vector<models::ModelBlock> blocks = models::blocks(model);
  const auto first = static_cast<int>(std::ranges::find(blocks, true, &models::ModelBlock::is_layer) - blocks.begin());
  const int layers = static_cast<int>(model.layers), behind = block - first - layers;
  if (block < first) return {.number = block, .is_embedding = true};
  if (behind < 0) return {.number = first, .is_layer = true, .layer = block - first};
  return {.number = first + 1 + behind, .is_head = block + 1 == std::ssize(blocks)};
}

std::map<int64_t, int64_t> numbers_by_bytes(const std::vector<int64_t>& storages) {
  std::map<int64_t, int64_t> number_of_bytes;
  for (const int64_t bytes : storages) ++number_of_bytes[bytes];
  return number_of_bytes;
}

// Activations outside of the divided layers: slices of the sequence, if it is divided. Lookups keep all tokens, and
// the head is given whole sequences.
bool is_sliced(const TensorForms::Powers& powers, const TinyBlock& block) {
  const bool between = std::ranges::any_of(kBetweenLayers, [&](ActivationPlace place) { return powers[place] > 0; });
  if (between || block.is_head || powers[kContextPlace] == 0) return false;
  return powers[kWidthPlace] > 0 || !block.is_embedding;
}

}  // namespace

const PlannedBlocks::Forms& PlannedBlocks::forms_of(const RunOptions& own, int block, bool recomputed) const {
  RunOptions one_layer = own;
  one_layer.model.layers = 1;
  const Key key{kind_of(one_layer), own.model.family, own.sequence_parallel, block, recomputed};
  const auto [place, is_new] = forms_->try_emplace(key);
  if (!is_new) return place->second;
  const RunOptions tiny = with_prime_sizes(one_layer);
  const ActivationSizes primes = activation_sizes(tiny);
  const Storages storages = run_(tiny, block, recomputed);
  place->second.kept = TensorForms(numbers_by_bytes(storages.kept), primes);
  for (const auto& moment : storages.moments) place->second.moments.emplace(numbers_by_bytes(moment), primes);
  return place->second;
}

BlockBytes PlannedBlocks::bytes(const RunOptions& options, int block) const {
  if (!run_) return {};
  const RunOptions own = options_of_rank(options);
  const TinyBlock tiny = tiny_block_of(options.model, block);
  const bool recomputed = tiny.is_layer && options.recomputation().of(tiny.layer, options.model.layers);
  const ActivationSizes sizes = activation_sizes(own);
  const TensorForms::Powers of_logits = powers_of_logits(sizes);
  const double slices = options.sequence_parallel ? static_cast<double>(options.tensor_parallel) : 1;
  const auto bytes_of = [&](const TensorForms& forms) {
    double sum = 0;
    forms.tell(sizes, [&](const TensorForms::Powers& powers, double number, double each) {
      const bool are_kept_logits = kept_logits_ && tiny.is_head && powers == of_logits;
      sum += are_kept_logits ? static_cast<double>(kept_logits_(own))
                             : number * each / (is_sliced(powers, tiny) ? slices : 1);
    });
    return sum;
  };
  const Forms& forms = forms_of(own, tiny.number, recomputed);
  BlockBytes bytes{.kept = bytes_of(forms.kept)};
  bytes.most = bytes.kept;
  for (const TensorForms& moment : forms.moments) bytes.most = std::max(bytes.most, bytes_of(moment));
  return bytes;
}

}  // namespace trainer
