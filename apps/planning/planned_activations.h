// The memory of activations, as a function of a run's sizes.
//
// A tensor that autograd keeps has a number of bytes that is a product: of the batch, the context, the width of the
// model and so on. A tiny model of the same structure whose sizes are different primes keeps the same tensors, and the
// primes in a tensor's bytes are the sizes that it grows with. So one step of a tiny model gives the bytes of each
// tensor of any large one, to the byte. measured_activations.h runs it; here is the arithmetic.
#pragma once

#include <fsdp/activation_memory.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "options/options.h"
#include "planning/run_kind.h"

namespace trainer {

// The sizes: batch, context, heads that share keys and values, heads of these, width of a head, width of the model,
// width of the MLP, vocabulary, rank of adapters. Sizes that follow from others, or are absent, are 1.
using ActivationSizes = std::array<int64_t, 9>;
enum ActivationPlace : size_t {
  kBatchPlace,
  kContextPlace,
  kSharedPlace,
  kKeyValueHeadsPlace,
  kHeadWidthPlace,
  kWidthPlace,
  kMlpWidthPlace,
  kVocabularyPlace,
  kRankPlace,
};
ActivationSizes activation_sizes(const RunOptions& options);

// The run with primes for its sizes. Sizes of 1 stay, because operators treat a dimension of 1 specially.
RunOptions with_prime_sizes(const RunOptions& options);

// The powers of the loss's logits: an entry of the vocabulary for each token, and nothing else. The power of each size.
std::array<int, std::tuple_size_v<ActivationSizes>> powers_of_logits(const ActivationSizes& sizes);

// The bytes of logits that a run's loss keeps of all that there are: those grow with no product of sizes beyond its
// room. Null: all.
using KeptLogitBytes = std::function<int64_t(const RunOptions&)>;

// Copies share what they have found out. One thread at a time.
class PlannedActivations {
 public:
  // The bytes of each tensor that a micro-batch's forward and backward with these options keep, at every moment when
  // they are most.
  using Run = std::function<std::vector<std::vector<int64_t>>(const RunOptions& tiny)>;

  // For runs with --activation-memory: the storages of a micro-batch in which each layer keeps its input alone, and
  // what a budget makes of them.
  struct Budgeted {
    std::function<fsdp::RecomputedStorages(const RunOptions& tiny)> run;
    std::function<fsdp::ActivationPlan(const fsdp::ActivationTimeline& timeline, int64_t budget)> plan;
  };

  // No activations: 0 bytes.
  PlannedActivations() = default;
  explicit PlannedActivations(Run run, KeptLogitBytes kept_logits = nullptr, Budgeted budgeted = {})
      : run_(std::move(run)), kept_logits_(std::move(kept_logits)), budgeted_(std::move(budgeted)) {}

  // That each rank keeps when it is most. Runs a tiny model for each kind of run that it is asked about (run_kind.h).
  // With --activation-memory those of `plan`, or the least where that is more.
  double bytes(const RunOptions& options) const;

  // With --activation-memory: what the layers are likely to keep. Bytes are those of the run. Its times are not known
  // before it; here products and attention take kProductShare of a layer's. Throws fsdp::Error where the least is more.
  fsdp::ActivationPlan plan(const RunOptions& options) const;
  static constexpr double kProductShare = 0.9;

 private:
  using Powers = std::array<int, std::tuple_size_v<ActivationSizes>>;
  // A factor for each product of sizes, by their powers.
  using Form = std::map<Powers, int64_t>;

  // RecomputedStorages, by sizes.
  struct BudgetForms {
    struct Block {
      Form products, all, unsaved_products;
    };
    std::vector<Block> blocks;
    std::set<std::pair<size_t, Form>> moments;
  };

  static Form form_of(const std::vector<int64_t>& storages, const ActivationSizes& tiny);
  // The bytes of a form in a run with these options.
  double bytes_of(const Form& form, const RunOptions& options) const;
  const std::set<Form>& forms_of(const RunOptions& options) const;
  const BudgetForms& budget_forms_of(const RunOptions& options) const;
  fsdp::ActivationTimeline timeline(const RunOptions& options) const;

  Run run_;
  KeptLogitBytes kept_logits_;
  Budgeted budgeted_;
  std::shared_ptr<std::map<RunKind, BudgetForms>> budget_forms_ = std::make_shared<std::map<RunKind, BudgetForms>>();
  std::shared_ptr<std::map<RunKind, std::set<Form>>> forms_ = std::make_shared<std::map<RunKind, std::set<Form>>>();
};

}  // namespace trainer
