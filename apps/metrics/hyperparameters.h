// The hyperparameters of a run for TensorBoard's table of them, as summaries of its plugin "hparams". The table's other
// columns are the scalars of the run, which TensorBoard finds itself.
//
// Source of the messages: tensorboard/plugins/hparams/plugin_data.proto.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "metrics/protobuf.h"

namespace trainer {

using HyperparameterValue = std::variant<bool, double, std::string>;
using Hyperparameters = std::vector<std::pair<std::string, HyperparameterValue>>;  // by name

inline constexpr const char* kSessionEndTag = "_hparams_/session_end_info";

// Each is a value of summary.proto, to be added to a summary: of a run that begins, and of one that has ended, by
// itself or otherwise. Texts have to be UTF-8.
Message session_start_value(const Hyperparameters& hyperparameters, double seconds_since_1970);
Message session_end_value(bool is_finished, double seconds_since_1970);

}  // namespace trainer
