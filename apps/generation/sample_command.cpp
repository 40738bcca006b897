#include "generation/sample_command.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>

#include <filesystem>

#include "console/terminal.h"
#include "generation/generate.h"
#include "models/language_model.h"
#include "run/checkpoint_folder.h"
#include "run/sharding.h"
#include "run/shared_flag.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

// The one that was kept with the run; otherwise what --tokenizer names.
std::shared_ptr<const tokenizers::Tokenizer> tokenizer_of(const Options& options) {
  const fs::path run = (fs::path(options.checkpoint) / "").parent_path().parent_path();
  return tokenizers::make_tokenizer(tokenizers::has_tokenizer(run) ? run.string() : options.tokenizer);
}

}  // namespace

int sample_command(const Options& given) {
  constexpr int kUsageError = 2, kThrew = 1;
  const auto tokenizer = tokenizer_of(given);
  Options options = given;
  // The ranks that hold the model once among them, in which each has what a file of the checkpoint has.
  options.ranks = shards_of(given.checkpoint);
  options.strategy = "full-shard";
  options.shard_group_size = 0;
  if (!options.model_options.vocabulary) {
    options.model.vocabulary = std::max(options.model.vocabulary, tokenizer->vocabulary());
  }
  SharedFlag bad_input;
  auto rank = [&](fsdp::World& world) {
    if (options.threads > 0) torch::set_num_threads(static_cast<int>(options.threads));
    const auto model = models::make_model(options.model);
    model->to(world.device());
    try {
      auto sharded = fsdp::shard(*model, world, sharding_of(options));
      fsdp::load_checkpoint(options.checkpoint, {.model = &sharded});
      const std::string text = generate(*model, *tokenizer, options, world.device());
      if (world.rank() == 0) print(text + "\n");
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
