#include "checkpoint/comparison.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/generators.h"
#include "checkpoint/problems.h"
#include "checkpoint/state_kinds.h"

namespace fsdp::checkpoint {

namespace {

using Parameter = Manifest::Parameter;
using Buffer = Manifest::Buffer;
using Generator = Manifest::Generator;

template <typename Named>
std::map<std::string_view, const Named*> by_name(const std::vector<Named>& all) {
  std::map<std::string_view, const Named*> names;
  for (const Named& one : all) names.emplace(one.name, &one);
  return names;
}

bool can_become(const std::string& from, const std::string& to) {
  constexpr std::array<std::string_view, 4> kFloating{"F64", "F32", "F16", "BF16"};
  const auto is_floating = [&](std::string_view dtype) { return std::ranges::count(kFloating, dtype) > 0; };
  return from == to || (is_floating(from) && is_floating(to));
}

// Its rows follow each other in memory, and the saved rows are its first ones.
bool has_grown(const Parameter& saved, const Parameter& wanted) {
  if (wanted.shape.empty() || saved.shape.size() != wanted.shape.size()) return false;
  return saved.shape[0] < wanted.shape[0] &&
         std::equal(saved.shape.begin() + 1, saved.shape.end(), wanted.shape.begin() + 1) &&
         saved.strides == wanted.strides && wanted.strides[0] * wanted.shape[0] == numel_of(wanted.shape);
}

class Differences {
 public:
  explicit Differences(bool with_optimizer) : with_optimizer_(with_optimizer) {}

  void compare(const std::vector<Parameter>& saved, const std::vector<Parameter>& wanted) {
    const auto saved_names = by_name(saved), wanted_names = by_name(wanted);
    for (const Parameter& parameter : wanted) {
      const auto found = saved_names.find(parameter.name);
      found == saved_names.end() ? missing(parameter.name, true) : compare(*found->second, parameter);
    }
    for (const Parameter& parameter : saved) {
      if (!wanted_names.contains(parameter.name)) extra(parameter.name, true);
    }
  }

  void compare(const std::vector<Buffer>& saved, const std::vector<Buffer>& wanted) {
    const auto saved_names = by_name(saved), wanted_names = by_name(wanted);
    for (const Buffer& buffer : wanted) {
      const std::string name = kBuffer + buffer.name;
      const auto found = saved_names.find(buffer.name);
      if (found == saved_names.end()) {
        missing(name, true);
      } else if (found->second->shape != buffer.shape || !can_become(found->second->dtype, buffer.dtype)) {
        misfit(fmt::format("{} has shape {} of {}, expected {} of {}", name, found->second->shape, found->second->dtype,
                           buffer.shape, buffer.dtype));
      }
    }
    for (const Buffer& buffer : saved) {
      if (!wanted_names.contains(buffer.name)) extra(kBuffer + buffer.name, true);
    }
  }

  void compare(const std::vector<Generator>& saved, const std::vector<Generator>& wanted) {
    const auto names = by_name(saved);
    for (const Generator& generator : wanted) {
      const std::string name = kGenerator + generator.name;
      const auto found = names.find(generator.name);
      if (found == names.end()) {
        missing(name, true);
      } else if (found->second->bytes != generator.bytes) {
        misfit(fmt::format("{} has {} bytes, expected {}: is it of another device?", name, found->second->bytes,
                           generator.bytes));
      }
    }
  }

  Comparison result() && { return std::move(result_); }

 private:
  void missing(const std::string& name, bool of_the_model) {
    result_.differences.missing.push_back(name);
    result_.texts.push_back(name + " is missing");
    result_.of_the_model |= of_the_model;
  }
  void extra(const std::string& name, bool of_the_model) {
    result_.differences.extra.push_back(name);
    result_.texts.push_back(name + " is unknown");
    result_.of_the_model |= of_the_model;
  }
  void misfit(std::string text) {
    result_.problems.push_back(std::move(text));
    result_.of_the_model = true;
  }

  void compare(const Parameter& saved, const Parameter& wanted) {
    const auto shapes = [&] {
      return fmt::format("{} has shape {}, expected {}", wanted.name, saved.shape, wanted.shape);
    };
    if (has_grown(saved, wanted)) {
      result_.differences.grown.push_back(wanted.name);
      result_.texts.push_back(shapes());
      result_.of_the_model = true;
    } else if (saved.shape != wanted.shape) {
      misfit(shapes());
    } else if (saved.strides != wanted.strides) {
      misfit(fmt::format("{} has strides {}, expected {}", wanted.name, saved.strides, wanted.strides));
    }
    if (saved.tensors.contains(kModel))
      compare_dtypes(wanted.name, saved.tensors.at(kModel), wanted.tensors.at(kModel));
    if (with_optimizer_ && !wanted.scalars.empty()) compare_states(saved, wanted);
  }

  void compare_dtypes(const std::string& name, const std::string& saved, const std::string& wanted) {
    if (saved == wanted) return;
    const std::string text = fmt::format("{} is {}, expected {}", name, saved, wanted);
    if (!can_become(saved, wanted)) return misfit(text);
    result_.differences.converted.push_back(name);
    result_.texts.push_back(text);
    result_.of_the_model = true;
  }

  // A format differs for all parameters of an optimizer: told once where it can be converted.
  void compare_formats(const std::string& name, const std::string& saved, const std::string& wanted) {
    if (saved == wanted) return;
    const std::string text =
        fmt::format("the optimizer's state was kept as {0}, and is kept as {1} here ({2}): set state_dtype to {0}",
                    saved, wanted, name);
    if (!is_convertible(saved, wanted)) return result_.problems.push_back(text);
    result_.differences.converted.push_back(name);
    if (!std::exchange(told_format_, true)) result_.texts.push_back(text);
  }

  // Those of a parameter that is trained here.
  void compare_states(const Parameter& saved, const Parameter& wanted) {
    const std::vector<std::string> there = state_kinds(saved), needed = state_kinds(wanted);
    const bool is_whole = has_state(saved, wanted);
    // A parameter that lacks a part of its state begins with none of it.
    for (const std::string& kind : needed) {
      const std::string name = kind + "." + wanted.name;
      if (!is_whole) missing(name, false);
      if (is_whole && wanted.tensors.contains(kind)) {
        compare_formats(name, format_of(saved, kind), format_of(wanted, kind));
      }
    }
    for (const std::string& kind : there) {
      if (!is_whole || !std::ranges::binary_search(needed, kind)) extra(kind + "." + wanted.name, false);
    }
  }

  bool with_optimizer_;
  bool told_format_ = false;
  Comparison result_;
};

}  // namespace

Comparison compare(const Manifest& saved, const Manifest& wanted, bool with_optimizer) {
  Differences differences(with_optimizer);
  differences.compare(saved.parameters, wanted.parameters);
  differences.compare(saved.buffers, wanted.buffers);
  differences.compare(saved.generators, wanted.generators);
  return std::move(differences).result();
}

void check_told(const char* call, bool strict, const LoadDifferences* differences) {
  FSDP_CHECK(
      strict || differences != nullptr,
      "{}: found strict off without .differences. Set .differences, which lists the tensors that were not loaded",
      call);
}

void check(const Comparison& comparison, bool strict, const std::string& directory) {
  std::vector<std::string> problems = comparison.problems;
  if (strict) problems.insert(problems.end(), comparison.texts.begin(), comparison.texts.end());
  const bool model = comparison.of_the_model;
  throw_if_any(problems, fmt::format("{}: a checkpoint of another {}", directory, model ? "model" : "optimizer"),
               model ? "Build the model of the checkpoint, or load the matching part with strict off."
                     : "Was the checkpoint saved with this optimizer? Build the checkpoint's optimizer, load only the "
                       "model, or load the matching part with strict off.");
}

}  // namespace fsdp::checkpoint
