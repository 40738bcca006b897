#include "planning/tensor_forms.h"

#include <cstddef>

namespace trainer {

TensorForms::TensorForms(const std::map<int64_t, int64_t>& number_of_bytes, const ActivationSizes& primes) {
  for (const auto& [bytes, number] : number_of_bytes) {
    int64_t factor = bytes;
    Powers powers{};
    for (size_t i = 0; i < primes.size(); ++i) {
      for (; factor > 0 && primes[i] > 1 && factor % primes[i] == 0; factor /= primes[i]) ++powers[i];
    }
    forms_[{powers, factor}] += number;
  }
}

double TensorForms::bytes_of(const Form& form, const ActivationSizes& sizes) {
  double bytes = static_cast<double>(form.second);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (int power = 0; power < form.first[i]; ++power) bytes *= static_cast<double>(sizes[i]);
  }
  return bytes;
}

}  // namespace trainer
