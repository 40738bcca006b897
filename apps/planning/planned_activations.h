// The memory of activations, as a function of a run's sizes.
//
// A tensor that autograd keeps has a number of bytes that is a product: of the batch, the context, the width of the
// model and so on. A tiny model of the same structure whose sizes are different primes keeps the same tensors, and the
// primes in a tensor's bytes are the sizes that it grows with. So one forward of a tiny model gives the bytes of each
// tensor of any large one, to the byte. measured_activations.h runs it; here is the arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "options/options.h"

namespace trainer {

// The sizes: batch, context, heads that share keys and values, heads of these, width of a head, width of the model,
// width of the MLP, vocabulary, rank of adapters. Those that follow from others, or are absent, are 1.
using ActivationSizes = std::array<int64_t, 9>;
ActivationSizes activation_sizes(const Options& options);

// The run with primes for its sizes, but for those that are 1: operators treat a dimension of 1 in a way of its own.
Options with_prime_sizes(const Options& options);

class PlannedActivations {
 public:
  // `storages`: in bytes each, what a forward and loss of `with_prime_sizes(options)` keep; so many times, maybe below
  // 0. Adds up with what was added for the same kind of run.
  void add(const Options& options, const std::vector<int64_t>& storages, int64_t times = 1);
  // Whether a run of this kind was added: of this dtype, of one sequence per micro-batch or of several.
  bool knows(const Options& options) const { return forms_.contains(kind_of(options)); }

  // That are kept, on each rank, at the end of a micro-batch's forward. 0 for a kind that was not added.
  double bytes(const Options& options) const;

 private:
  // A factor for each product of sizes, by their powers.
  using Form = std::map<std::array<int, std::tuple_size_v<ActivationSizes>>, int64_t>;
  using Kind = std::tuple<std::string, bool>;
  static Kind kind_of(const Options& options) { return {options.param_dtype, options.batch == 1}; }

  std::map<Kind, Form> forms_;
};

}  // namespace trainer
