#include "fsdp-convert/gpt2_matrices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "files/printable.h"
#include "fsdp-convert/hugging_face.h"
#include "models/hugging_face_weights.h"

namespace converter {

using fsdp::formats::Format;
using fsdp::formats::StoredTensor;

namespace {

constexpr std::string_view kAttention = ".attn.c_attn.weight";

// The matrices of queries, keys and values of all heads.
std::vector<const StoredTensor*> attention_matrices(const fsdp::formats::Source& source) {
  std::vector<const StoredTensor*> found;
  for (const StoredTensor& tensor : source.tensors()) {
    const bool is_state = tensor.name.role == fsdp::formats::Role::State;
    if (!is_state && tensor.name.name.ends_with(kAttention)) found.push_back(&tensor);
  }
  return found;
}

bool has_names_of_gpt2(const fsdp::formats::Source& source) {
  std::set<std::string> names;
  for (const StoredTensor& tensor : source.tensors()) names.insert(tensor.name.name);
  constexpr std::string_view kFirst = "h.0.attn.c_attn.weight";
  return std::ranges::any_of(names, [&](const std::string& name) {
    if (!name.ends_with(kFirst)) return false;
    const std::string prefix = name.substr(0, name.size() - kFirst.size());
    const auto is_there = [&](const char* rest) { return names.contains(prefix + rest); };
    return is_there("wte.weight") && is_there("wpe.weight") && is_there("h.0.attn.c_proj.weight") &&
           is_there("h.0.mlp.c_fc.weight") && is_there("h.0.mlp.c_proj.weight");
  });
}

// [width, 3 width], as Hugging Face has it, and not [3 width, width], as torch.nn.Linear has it; none: neither.
std::optional<bool> is_transposed(const StoredTensor& attention) {
  const std::vector<int64_t>& shape = attention.shape;
  if (shape.size() != 2) return std::nullopt;
  if (shape[1] == 3 * shape[0]) return true;
  if (shape[0] == 3 * shape[1]) return false;
  return std::nullopt;
}

std::string left_alone(const StoredTensor& attention, const std::string& why) {
  return fmt::format("Matrices such as {} stay as they are: {}. --transpose PATTERN turns matrices.",
                     fsdp::files::printable(attention.name.name), why);
}

}  // namespace

Gpt2Matrices gpt2_matrices(const fsdp::formats::Source& source, const std::string& path, Format to) {
  const std::vector<const StoredTensor*> attention = attention_matrices(source);
  const bool is_model_for_others = to == Format::HuggingFace || to == Format::Checkpoint;
  if (attention.empty() || source.format() == to) return {};
  const std::string model = source.format() == Format::HuggingFace ? model_type_beside(path) : "";
  if (!has_names_of_gpt2(source) || (!model.empty() && model != "gpt2")) {
    const std::string why = "some models have them transposed in Hugging Face's files, and this one is no GPT-2";
    return {{}, is_model_for_others ? left_alone(*attention[0], why) : ""};
  }
  const std::optional<bool> lies = is_transposed(*attention[0]);
  for (const StoredTensor* one : attention) {
    if (lies && is_transposed(*one) == lies) continue;
    return {{}, left_alone(*one, fmt::format("its shape {} is not that of a GPT-2 here", one->shape))};
  }
  if (!is_model_for_others) {
    return {{},
            fmt::format("GPT-2's matrices stay as they are: {}.",
                        *lies ? "transposed, as transformers has them"
                              : "as torch.nn.Linear has them, and transformers has them transposed")};
  }
  if (*lies == (to == Format::HuggingFace)) return {};
  models::ModelConfig config;
  config.family = models::Family::Gpt2;
  return {models::pretrained_options(config).transposed,
          "The names are those of a GPT-2, which Hugging Face's files have transposed; --transpose none keeps them."};
}

}  // namespace converter
