// The memory of activations, as a function of a run's sizes.
//
// A tensor that autograd keeps has a number of bytes that is a product: of the batch, the context, the width of the
// model and so on. A tiny model of the same structure whose sizes are different primes keeps the same tensors, and the
// primes in a tensor's bytes are the sizes that it grows with. So one step of a tiny model gives the bytes of each
// tensor of any large one, to the byte. measured_activations.h runs it; here is the arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "options/options.h"

namespace trainer {

// The sizes: batch, context, heads that share keys and values, heads of these, width of a head, width of the model,
// width of the MLP, vocabulary, rank of adapters. Those that follow from others, or are absent, are 1.
using ActivationSizes = std::array<int64_t, 9>;
ActivationSizes activation_sizes(const Options& options);

// The run with primes for its sizes, but for those that are 1: operators treat a dimension of 1 in a way of its own.
Options with_prime_sizes(const Options& options);

// The bytes of each tensor that is kept at one moment, where saved tensors are offloaded.
struct PlannedMoment {
  std::vector<int64_t> in_memory, offloaded;  // the latter only where they are as large as is offloaded
};

// As fsdp::kLeastOffloadBytes.
constexpr double kLeastOffloaded = 64 << 10;

// Copies share what they have found out. One thread at a time.
class PlannedActivations {
 public:
  // The bytes of each tensor that a micro-batch's forward and backward with these options keep, at every moment when
  // they are most.
  using Run = std::function<std::vector<std::vector<int64_t>>(const Options& tiny)>;

  // The same, where all tensors are offloaded that may be.
  using OffloadedRun = std::function<std::vector<PlannedMoment>(const Options& tiny)>;

  // Of nothing: 0 bytes.
  PlannedActivations() = default;
  explicit PlannedActivations(Run run, OffloadedRun offloaded = {})
      : run_(std::move(run)), offloaded_(std::move(offloaded)) {}

  // That each rank keeps in memory when it is most. Runs a tiny model for each kind of run that it is asked about: of a dtype,
  // and of one sequence per micro-batch or of several.
  double bytes(const Options& options) const;
  // In files, when that is most.
  double offloaded_bytes(const Options& options) const;

 private:
  using Powers = std::array<int, std::tuple_size_v<ActivationSizes>>;
  // The tensors of one moment: each a product of sizes, by their powers, and of a factor.
  struct Form {
    std::map<Powers, int64_t> in_memory;                            // factors, added up
    std::map<std::pair<Powers, int64_t>, int64_t> offloaded = {};  // number of tensors, by powers and factor
    auto operator<=>(const Form&) const = default;
    double offloaded_bytes(const ActivationSizes& sizes, bool large) const;  // of those that are so large, or not
  };
  using Kind = std::tuple<std::string, bool, bool>;

  const std::set<Form>& forms_of(const Options& options) const;

  std::vector<PlannedMoment> moments_of(const Options& tiny) const;

  Run run_;
  OffloadedRun offloaded_;
  std::shared_ptr<std::map<Kind, std::set<Form>>> forms_ = std::make_shared<std::map<Kind, std::set<Form>>>();
};

}  // namespace trainer
