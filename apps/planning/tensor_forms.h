// Tensors whose bytes grow with a run's sizes, known by those of a tiny model (planned_activations.h): each is a
// product of sizes and of a factor.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "planning/planned_activations.h"

namespace trainer {

class TensorForms {
 public:
  TensorForms() = default;
  using Powers = std::array<int, std::tuple_size_v<ActivationSizes>>;  // of the sizes

  // The forms of tensors, from their bytes and the number of each, in a model with these sizes, which are different
  // primes.
  TensorForms(const std::map<int64_t, int64_t>& number_of_bytes, const ActivationSizes& primes);

  // Calls `told(powers, number of such tensors, bytes of each)` for those of a run with these sizes.
  template <typename Told>
  void tell(const ActivationSizes& sizes, Told told) const {
    for (const auto& [form, number] : forms_) told(form.first, static_cast<double>(number), bytes_of(form, sizes));
  }

  auto operator<=>(const TensorForms&) const = default;

 private:
  using Form = std::pair<Powers, int64_t>;  // and the factor

  static double bytes_of(const Form& form, const ActivationSizes& sizes);

  std::map<Form, int64_t> forms_;  // how many there are of each
};

}  // namespace trainer
