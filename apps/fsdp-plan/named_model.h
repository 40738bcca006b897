// The model that the first word of fsdp-plan MODEL names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/parameter_list.h"

namespace planner {

// A shape, or parameters alone.
struct NamedModel {
  std::vector<std::string> shape = {};                       // options of fsdp-train with it
  std::optional<models::ParameterList> list = std::nullopt;  // then there is no shape
  std::string problem = {};                                  // a sentence; then there is neither
};

// A name, a file or a folder (kModelHelp). A checkpoint of a run of fsdp-train has the run's shape, if it has the same
// parameters.
NamedModel named_model(const std::string& word);

// The files of tensors beside a config.json, which list the parameters of a model of any family; empty: there are none.
std::string weights_beside(const std::string& word);

}  // namespace planner
