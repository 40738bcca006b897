// Reports of a model. Each call takes the model's lock.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model.h"
#include "fsdp/trace.h"
#include "report/running_trace.h"

namespace fsdp::engine {

MemoryReport memory_report(const Model& model);
std::optional<ActivationDecision> activation_decision(const Model& model);
CommunicationReport communication_report(const Model& model);
// ShardedModel::waits_for. Takes no lock.
std::string waits_for(const Model& model);
// ShardedModel::gradients_not_finite
std::vector<std::string> gradients_not_finite(const Model& model);
// The model's spans and memory are a part of the trace from now on. Throws Error where it is traced already.
void add_trace(report::RunningTrace& trace, const std::shared_ptr<Model>& model, const TraceOptions& options);
// ShardedModel::schedule
std::string schedule_text(const Model& model);

}  // namespace fsdp::engine
