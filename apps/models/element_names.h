// The names of dtypes in lists of parameters: those of PyTorch, C++, safetensors and this library's options.
#pragma once

#include <optional>
#include <string_view>

namespace models {

enum class ElementKind { Float, Whole };

// "fp32", "torch.float32", "F32", "float"; "I64", "long". None for another word.
std::optional<ElementKind> element_kind(std::string_view name);

}  // namespace models
