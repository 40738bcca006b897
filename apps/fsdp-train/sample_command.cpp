#include "sample_command.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>

#include "console/units.h"
#include "models/gpt.h"
#include "sample.h"
#include "sharding.h"
#include "shared_flag.h"

namespace trainer {

int sample_command(const Options& options) {
  constexpr int kUsageError = 2, kThrew = 1;
  SharedFlag bad_input;
  auto rank = [&](fsdp::World& world) {
    if (options.threads > 0) torch::set_num_threads(static_cast<int>(options.threads));
    gpt::Gpt model(options.model);
    try {
      auto sharded = fsdp::shard(*model, world, sharding_of(options));
      fsdp::load_checkpoint(options.checkpoint, {.model = &sharded});
      const std::string text = sample(model, options);
      if (world.rank() == 0) fmt::print("{}\n", printable(text));
    } catch (const fsdp::Error&) {
      bad_input.set();
      throw;
    }
  };
  const int code = fsdp::launch(
      {.ranks = static_cast<int>(options.ranks), .timeout = std::chrono::seconds(options.timeout), .plain_rank0 = true},
      rank);
  return bad_input.is_set() && code == kThrew ? kUsageError : code;
}

}  // namespace trainer
