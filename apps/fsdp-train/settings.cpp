#include "settings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "console/units.h"

namespace trainer {

std::string settings_table(const Options& options, const data::Corpus& corpus) {
  const gpt::Config& model = options.model;
  std::string table;
  auto row = [&](const char* name, const std::string& value) { table += fmt::format("  {:<14}{}\n", name, value); };
  const int64_t held_back = corpus.validation ? corpus.validation->size() : 0;
  row("text", fmt::format("{}: {} to train on, {} held back", options.text,
                          short_bytes(static_cast<size_t>(corpus.training->size())),
                          short_bytes(static_cast<size_t>(held_back))));
  row("model",
      fmt::format("GPT-2, {} parameters: {} layers of width {}, {} heads, context {}",
                  grouped(gpt::parameter_numel(model)), model.layers, model.width, model.heads, model.context));
  row("ranks", fmt::format("{}; threads a rank: {}", options.ranks, options.threads));
  row("sharding", options.strategy + (options.shard_group_size == 0
                                          ? std::string()
                                          : fmt::format(" in groups of {} ranks", options.shard_group_size)));
  row("dtypes", fmt::format("parameters {}{}, gradients between ranks {}", options.param_dtype,
                            options.scales_loss() ? " (scaled loss)" : "", options.reduce_dtype));
  row("a step", fmt::format("{} ranks x {} micro-batches x {} sequences x {} bytes = {} tokens", options.ranks,
                            options.micro_batches, options.batch, model.context, grouped(options.tokens_per_step())));
  row("steps", fmt::format("{}, {} of them warm-up", options.steps, *options.warmup));
  row("AdamW", fmt::format("learning rate {:.3g} falling to {:.3g}, betas {} and {}", options.lr, options.lr / 10,
                           Options::kBeta1, Options::kBeta2));
  row("", fmt::format("weight decay {}, gradient clipped at {}", options.weight_decay, options.clip));
  row("seed", fmt::format("{}", options.seed));
  row("results", options.run);
  if (!options.checkpoint.empty()) row("goes on from", options.checkpoint);
  return table;
}

std::string settings_json(const Options& options) {
  const gpt::Config& model = options.model;
  const nlohmann::ordered_json json = {{"text", options.text},
                                       {"run", options.run},
                                       {"checkpoint", options.checkpoint},
                                       {"vocabulary", model.vocabulary},
                                       {"context", model.context},
                                       {"width", model.width},
                                       {"layers", model.layers},
                                       {"heads", model.heads},
                                       {"parameters", gpt::parameter_numel(model)},
                                       {"ranks", options.ranks},
                                       {"threads", options.threads},
                                       {"timeout", options.timeout},
                                       {"strategy", options.strategy},
                                       {"shard_group_size", options.shard_group_size},
                                       {"param_dtype", options.param_dtype},
                                       {"reduce_dtype", options.reduce_dtype},
                                       {"steps", options.steps},
                                       {"batch", options.batch},
                                       {"micro_batches", options.micro_batches},
                                       {"tokens_per_step", options.tokens_per_step()},
                                       {"lr", options.lr},
                                       {"warmup", *options.warmup},
                                       {"beta1", Options::kBeta1},
                                       {"beta2", Options::kBeta2},
                                       {"weight_decay", options.weight_decay},
                                       {"clip", options.clip},
                                       {"seed", options.seed},
                                       {"log_every", options.log_every},
                                       {"validate_every", options.validate_every},
                                       {"save_every", options.save_every},
                                       {"sample_length", options.sample_length},
                                       {"temperature", options.temperature},
                                       {"top_k", options.top_k},
                                       {"prompt", options.prompt}};
  // Paths and prompts need not be UTF-8, JSON must be.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trainer
