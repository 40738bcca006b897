// Reports of a model. Each call takes the model's lock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/model.h"

namespace fsdp::engine {

MemoryReport memory_report(const Model& model);
std::optional<ActivationDecision> activation_decision(const Model& model);
CommunicationReport communication_report(const Model& model);
// ShardedModel::waits_for. Takes no lock.
std::string waits_for(const Model& model);
// ShardedModel::gradients_not_finite
std::vector<std::string> gradients_not_finite(const Model& model);
// ShardedModel::schedule
std::string schedule_text(const Model& model);

}  // namespace fsdp::engine
