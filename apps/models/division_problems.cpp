#include "models/division_problems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace models {

namespace {

bool divides(int64_t parts, int64_t number) { return parts > 0 && number % parts == 0; }

// Problems of the model's sizes with this number of parts.
std::vector<std::string> problems_of_parts(const ModelConfig& config, const DivisionShape& shape) {
  const int64_t parts = shape.parts, shared = config.key_value_heads_or_default();
  std::vector<std::string> found;
  if (!divides(parts, config.heads))
    found.push_back(fmt::format("{} parts do not divide heads, which is {}.", parts, config.heads));
  if (!divides(parts, shared) && !divides(shared, parts))
    found.push_back(fmt::format("key_value_heads is {}, no multiple or divisor of {} parts.", shared, parts));
  if (!divides(parts, config.mlp_width_or_default()))
    found.push_back(
        fmt::format("{} parts do not divide mlp_width, which is {}.", parts, config.mlp_width_or_default()));
  if (config.vocabulary < parts)
    found.push_back(fmt::format("vocabulary is {}, fewer than {} parts.", config.vocabulary, parts));
  if (shape.sequence_parallel && !divides(parts, config.context))
    found.push_back(fmt::format("{} parts do not divide context, which is {}: slices of the sequence are equal.", parts,
                                config.context));
  return found;
}

// Numbers of parts that the axis and the model allow.
std::string possible_parts(const ModelConfig& config, DivisionShape shape) {
  std::vector<int> possible;
  for (shape.parts = shape.ranks; shape.parts <= config.heads; shape.parts += shape.ranks) {
    if (problems_of_parts(config, shape).empty()) possible.push_back(shape.parts);
  }
  if (possible.empty()) return fmt::format("No number of parts fits {} ranks. Use fewer ranks.", shape.ranks);
  return fmt::format("Use {} {}.", fmt::join(possible, ", "), possible == std::vector{1} ? "part" : "parts");
}

}  // namespace

std::vector<std::string> division_problems(const ModelConfig& config, const DivisionShape& shape) {
  std::vector<std::string> found;
  if (shape.parts < 1 || shape.ranks < 1 || shape.parts % shape.ranks != 0) {
    found.push_back(fmt::format("found {} parts on {} ranks, expected a multiple.", shape.parts, shape.ranks));
  } else {
    found = problems_of_parts(config, shape);
  }
  if (!found.empty()) found.back() += " " + possible_parts(config, shape);
  if (config.lora)
    found.push_back("lora is set: divided layers have no adapters. Train all weights, or use an undivided model.");
  return found;
}

}  // namespace models
