#include "metrics/hyperparameters.h"

namespace trainer {

namespace {

// Numbers of summary.proto and tensor.proto.
constexpr int kTagOfSummary = 1, kTensor = 8, kMetadata = 9;
constexpr int kPluginData = 1, kPluginName = 1, kContent = 2;
constexpr int kDtype = 1, kShape = 2, kShapeDim = 2, kDimSize = 1, kFloat = 1;
// Numbers of plugin_data.proto. Its version is 0, which is what an absent field means.
constexpr int kSessionStart = 3, kSessionEnd = 4;
constexpr int kStartHyperparameters = 1, kStartSeconds = 5, kEndStatus = 1, kEndSeconds = 2;
constexpr int kSuccess = 1, kFailure = 2;
constexpr int kMapKey = 1, kMapValue = 2;
// Numbers of google.protobuf.Value.
constexpr int kNumberValue = 2, kStringValue = 3, kBoolValue = 4;

Message value_of(const HyperparameterValue& value) {
  Message message;
  if (const auto* truth = std::get_if<bool>(&value)) message.add_integer(kBoolValue, *truth ? 1 : 0);
  if (const auto* number = std::get_if<double>(&value)) message.add_double(kNumberValue, *number);
  if (const auto* text = std::get_if<std::string>(&value)) message.add_bytes(kStringValue, *text);
  return message;
}

// A summary's value that has nothing but the plugin's data, and a tensor of no elements.
Message plugin_value(const std::string& tag, int kind, const Message& data) {
  Message content;
  content.add_message(kind, data);
  Message plugin;
  plugin.add_bytes(kPluginName, "hparams");
  plugin.add_message(kContent, content);
  Message metadata;
  metadata.add_message(kPluginData, plugin);
  Message dim, shape, tensor;
  dim.add_integer(kDimSize, 0);
  shape.add_message(kShapeDim, dim);
  tensor.add_integer(kDtype, kFloat);
  tensor.add_message(kShape, shape);
  Message value;
  value.add_bytes(kTagOfSummary, tag);
  value.add_message(kTensor, tensor);
  value.add_message(kMetadata, metadata);
  return value;
}

}  // namespace

Message session_start_value(const Hyperparameters& hyperparameters, double seconds_since_1970) {
  Message start;
  for (const auto& [name, value] : hyperparameters) {
    Message entry;
    entry.add_bytes(kMapKey, name);
    entry.add_message(kMapValue, value_of(value));
    start.add_message(kStartHyperparameters, entry);
  }
  start.add_double(kStartSeconds, seconds_since_1970);
  return plugin_value("_hparams_/session_start_info", kSessionStart, start);
}

Message session_end_value(bool is_finished, double seconds_since_1970) {
  Message end;
  end.add_integer(kEndStatus, is_finished ? kSuccess : kFailure);
  end.add_double(kEndSeconds, seconds_since_1970);
  return plugin_value(kSessionEndTag, kSessionEnd, end);
}

}  // namespace trainer
