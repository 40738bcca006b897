#include "planning/textbook.h"

#include <algorithm>

#include "models/operators.h"
#include "plan/activations.h"
#include "planning/planned_sharding.h"
#include "planning/textbook_topics.h"

namespace trainer {

std::vector<TextbookTopic> textbook() {
  return {bytes_per_parameter(),  gpt2_part_by_part(),
          models_at_16_bytes(),   zero_stages(),
          zero_on_hosts(),        volumes(),
          traffic_across_hosts(), largest_layer(),
          llmc_memory(),          recomputed_activations(),
          one_to_many(),          even_samples()};
}

fsdp::plan::StateMemory state_on_gpus(const std::vector<fsdp::plan::Unit>& units, const std::string& strategy,
                                      int64_t ranks, const std::string& param_dtype) {
  constexpr int64_t kGpusOfHost = 8;
  RunOptions options;
  options.strategy = strategy;
  options.ranks = ranks;
  options.param_dtype = param_dtype;
  options.no_save = true;
  const int64_t hosts = std::max<int64_t>(1, ranks / kGpusOfHost);
  return state_memory(units, planned_sharding(options, hosts, /*on_gpus=*/true)).front();
}

double held_bytes(const HeldRun& run) {
  using fsdp::KeptResults;
  const models::MicroBatchSizes sizes{.batch = run.batch, .element_bytes = run.element_bytes, .on_gpus = true};
  const std::vector<KeptResults> layers(static_cast<size_t>(run.model.layers),
                                        run.recomputes ? KeptResults::None : KeptResults::All);
  return static_cast<double>(activation_bytes(models::model_graphs(run.model, sizes), layers).peak);
}

}  // namespace trainer
