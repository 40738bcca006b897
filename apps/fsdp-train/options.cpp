#include "options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "option_table.h"

namespace trainer {

namespace {

void add_options(OptionTable& table, Options& options) {
  table.group("Data and results");
  table.add("--text", options.text, "file, or folder of files, to learn from; required");
  table.require("--text", "--text is missing: name a file, or a folder of files, to learn from.");
  table.add("--run", options.run, "folder for metrics, checkpoints and the sample");
  table.add("--checkpoint", options.checkpoint, "folder of a checkpoint to go on from", "none");

  table.group("Model");
  table.add("--context", options.model.context, "bytes that a prediction sees");
  table.add("--width", options.model.width, "width of the layers, a multiple of the heads");
  table.add("--layers", options.model.layers, "layers");
  table.add("--heads", options.model.heads, "attention heads a layer");

  table.group("Ranks");
  table.add("--ranks", options.ranks, "processes that share the model");
  table.add("--threads", options.threads, "threads a rank", "the cores shared evenly");
  table.add("--timeout", options.timeout, "seconds that a rank waits for another");

  table.group("Sharding");
  table.add("--strategy", options.strategy, fmt::format("{}", fmt::join(kStrategies, ", ")));
  table.add("--shard-group-size", options.shard_group_size, "ranks that hold the model once",
            "all, or a host's for hybrid strategies");
  table.add("--param-dtype", options.param_dtype, "of full parameters and the passes: fp32, bf16, fp16");
  table.add("--reduce-dtype", options.reduce_dtype, "of gradients between ranks: fp32, bf16, fp16; sums are fp32");

  table.group("Training");
  table.add("--steps", options.steps, "steps from the beginning of the run to its end");
  table.add("--batch", options.batch, "sequences a rank and micro-batch");
  table.add("--micro-batches", options.micro_batches, "micro-batches a rank and step");
  table.add("--lr", options.lr, "highest learning rate; it falls to a tenth");
  table.add("--warmup", options.warmup, "steps until the highest learning rate", "a fifth of the steps, at most 100");
  table.add("--weight-decay", options.weight_decay, "weight decay of the matrices");
  table.add("--clip", options.clip, "highest norm of the gradient");
  table.add("--seed", options.seed, "of the first weights, the order of the text and the sample");

  table.group("What is shown and kept");
  table.add("--log-every", options.log_every, "steps between lines where there is no terminal", "every 5 seconds");
  table.add("--validate-every", options.validate_every, "steps between losses on held-back text", "at the end");
  table.add("--save-every", options.save_every, "steps between checkpoints", "at the end");
  table.add("--sample-length", options.sample_length, "bytes written by the model at the end");
  table.add("--temperature", options.temperature, "of the sample; 0: always the likeliest byte");
  table.add("--top-k", options.top_k, "the sample is drawn from this many likeliest bytes; 0: from all");
  table.add("--prompt", options.prompt, "what the sample begins with", "a new line");
}

class RangeCheck {
 public:
  explicit RangeCheck(std::vector<std::string>& problems) : problems_(problems) {}

  struct Bounds {
    const char* name;
    int64_t value, lowest, highest;
  };
  void within(std::initializer_list<Bounds> all) {
    for (const auto& [name, value, lowest, highest] : all) {
      require(value >= lowest, fmt::format("{} is {}; it must be at least {}.", name, value, lowest));
      require(value <= highest, fmt::format("{} is {}; it must be at most {}.", name, value, highest));
    }
  }
  void positive(const char* name, double value) {
    require(std::isfinite(value) && value > 0, fmt::format("{} is {}; it must be a number above 0.", name, value));
  }
  void not_negative(const char* name, double value) {
    require(std::isfinite(value) && value >= 0, fmt::format("{} is {}; it must be 0 or a number above.", name, value));
  }
  template <typename Words>
  void one_of(const char* name, const std::string& value, const Words& words) {
    require(std::find(words.begin(), words.end(), value) != words.end(),
            fmt::format("{} is '{}'; it must be one of {}.", name, value, fmt::join(words, ", ")));
  }
  void require(bool holds, const std::string& problem) {
    if (!holds) problems_.push_back(problem);
  }

 private:
  std::vector<std::string>& problems_;
};

void check_sharding(const Options& options, RangeCheck& check) {
  check.one_of("--strategy", options.strategy, kStrategies);
  check.one_of("--param-dtype", options.param_dtype, kDtypes);
  check.one_of("--reduce-dtype", options.reduce_dtype, kDtypes);
  const int64_t group = options.shard_group_size;
  check.require(options.strategy != "no-shard" || group <= 1,
                fmt::format("--shard-group-size is {} with --strategy no-shard, which shards nothing.", group));
  // Under a launcher --ranks stays at 1 and the launcher's number counts; `shard` compares with that.
  check.require(options.ranks <= 1 || group <= 0 || options.ranks % group == 0,
                fmt::format("--shard-group-size {} does not divide --ranks {}.", group, options.ranks));
}

void check_ranges(const Options& options, std::vector<std::string>& problems) {
  RangeCheck check(problems);
  const models::ModelConfig& model = options.model;
  // The upper bounds are far beyond use; they keep every product of sizes within 64 bits.
  constexpr int64_t kMany = 1'000'000'000, kSize = 65'536;
  check.within({{"--context", model.context, 1, kSize},
                {"--width", model.width, 1, kSize},
                {"--layers", model.layers, 1, 4096},
                {"--heads", model.heads, 1, kSize},
                {"--ranks", options.ranks, 1, 1024},
                {"--threads", options.threads, 0, 1024},
                {"--timeout", options.timeout, 1, kMany},
                {"--shard-group-size", options.shard_group_size, 0, 1024},
                {"--steps", options.steps, 1, kMany},
                {"--batch", options.batch, 1, kSize},
                {"--micro-batches", options.micro_batches, 1, kSize},
                {"--warmup", options.warmup.value_or(0), 0, kMany},
                {"--seed", options.seed, 0, std::numeric_limits<int64_t>::max()},
                {"--log-every", options.log_every, 0, kMany},
                {"--validate-every", options.validate_every, 0, kMany},
                {"--save-every", options.save_every, 0, kMany},
                {"--sample-length", options.sample_length, 0, kMany},
                {"--top-k", options.top_k, 0, kMany}});
  check_sharding(options, check);
  check.positive("--lr", options.lr);
  check.positive("--clip", options.clip);
  check.not_negative("--weight-decay", options.weight_decay);
  check.not_negative("--temperature", options.temperature);
  check.require(model.heads < 1 || model.width % model.heads == 0,
                fmt::format("--width {} is not a multiple of --heads {}.", model.width, model.heads));
  check.require(options.steps < 1 || options.warmup.value_or(0) <= options.steps,
                fmt::format("--warmup {} is more than --steps {}.", options.warmup.value_or(0), options.steps));
}

constexpr const char* kDescription =
    "fsdp-train: trains a GPT-2 on the bytes of a text, sharded over the ranks.\n"
    "The loss, in nats a byte, is the same to the last digit for any ranks x micro-batches of the same product.";

}  // namespace

CommandLine parse_command_line(std::vector<std::string> arguments) {
  CommandLine result;
  CLI::App app(kDescription, "fsdp-train");
  app.get_formatter()->column_width(26);
  OptionTable table(app, result.problems);
  add_options(table, result.options);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    result.help = app.help();
    return result;
  } catch (const CLI::ParseError& error) {
    result.problems.push_back(error.what());
    return result;
  }
  table.read();
  check_ranges(result.options, result.problems);
  if (!result.options.warmup) result.options.warmup = std::min<int64_t>(100, result.options.steps / 5);
  return result;
}

}  // namespace trainer
