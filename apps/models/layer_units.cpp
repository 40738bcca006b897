#include "models/layer_units.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "models/gpt2.h"
#include "models/llama.h"

namespace models {

namespace {

// "transformer.h.12": 12
int64_t number_of(const std::string& layer) { return std::stoll(layer.substr(layer.rfind('.') + 1)); }

}  // namespace

fsdp::UnitPolicy layer_units(int64_t per_unit) {
  const fsdp::UnitPolicy single = fsdp::units_of<Gpt2BlockImpl, LlamaBlockImpl>();
  if (per_unit == 1) return single;
  const fsdp::UnitPolicy whole = fsdp::one_unit();
  return fsdp::UnitPolicy([=](const torch::nn::Module& root, const std::vector<std::string>&) {
    std::vector<fsdp::UnitMembers> units;
    int64_t last = -1;
    for (const std::string& layer : single.choose(root)) {
      const int64_t number = number_of(layer);
      const bool goes_on = !units.empty() && number == last + 1 && number % per_unit != 0;
      if (!goes_on) units.push_back({.name = layer});
      units.back().members.push_back(layer);
      if (goes_on) units.back().name = fmt::format("{}-{}", units.back().members.front(), number);
      last = number;
    }
    return units.size() == 1 && units.front().members.size() > 1 ? whole.divide(root) : units;
  });
}

}  // namespace models
