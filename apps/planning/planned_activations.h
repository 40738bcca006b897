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

// Copies share what they have found out. One thread at a time.
class PlannedActivations {
 public:
  // The bytes of each tensor that a micro-batch's forward and backward with these options keep, at every moment when
  // they are most.
  using Run = std::function<std::vector<std::vector<int64_t>>(const Options& tiny)>;

  // Of nothing: 0 bytes.
  PlannedActivations() = default;
  explicit PlannedActivations(Run run) : run_(std::move(run)) {}

  // That each rank keeps when it is most. Runs a tiny model for each kind of run that it is asked about: of a dtype,
  // and of one sequence per micro-batch or of several.
  double bytes(const Options& options) const;

 private:
  // A factor for each product of sizes, by their powers.
  using Form = std::map<std::array<int, std::tuple_size_v<ActivationSizes>>, int64_t>;
  using Kind = std::tuple<std::string, bool>;

  const std::set<Form>& forms_of(const Options& options) const;

  Run run_;
  std::shared_ptr<std::map<Kind, std::set<Form>>> forms_ = std::make_shared<std::map<Kind, std::set<Form>>>();
};

}  // namespace trainer
