#include "generation/sample_command.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "console/terminal.h"
#include "console/units.h"
#include "generation/text_stream.h"
#include "generation/writer.h"
#include "models/hugging_face_weights.h"
#include "models/language_model.h"
#include "run/sharding.h"
#include "run/shared_flag.h"

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;

void print_speed(int64_t tokens, Clock::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const double speed = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  print_error(fmt::format("[{} tokens in {:.1f} s: {:.1f} tokens/s]\n", tokens, seconds, speed));
}

// A reader that has seen enough is no failure of a rank.
void end_with_reader() {
  std::signal(SIGPIPE, [](int) { _exit(0); });
}

void print_samples(models::LanguageModel& model, const SampleInputs& inputs, const SampleOptions& options,
                   torch::Device device) {
  end_with_reader();
  const Clock::time_point began = Clock::now();
  const std::vector<int32_t> prompt = prompt_tokens(*inputs.tokenizer, inputs.prompt);
  Writer writer(model, *inputs.tokenizer, prompt, options, device);
  int64_t tokens = 0;
  for (int64_t sample = 0; sample < options.samples; ++sample) {
    if (options.samples > 1) {
      print(fmt::format("{}--- sample {} of {} ---\n", sample > 0 ? "\n" : "", sample + 1, options.samples));
    }
    TextStream text(*inputs.tokenizer, print);
    text.add(prompt);
    const uint64_t seed = static_cast<uint64_t>(options.seed) + static_cast<uint64_t>(sample);
    const int64_t written = writer.write(seed, [&](int32_t token) { text.add({&token, 1}); });
    tokens += written;
    text.end();
    print("\n");
    if (writer.logits_not_finite()) {
      throw fsdp::Error(
          fmt::format("sample {} ends after {}: the model's logits are not finite. Its weights are of no "
                      "use: take an earlier checkpoint, or train with a lower --lr.",
                      sample + 1, counted(written, "token")));
    }
  }
  if (isatty(STDERR_FILENO) == 1) print_speed(tokens, Clock::now() - began);
}

void use_all_cores(const SampleOptions& options) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const bool is_decided = std::getenv("OMP_NUM_THREADS") != nullptr && options.threads == 0;
  if (!is_decided) torch::set_num_threads(options.threads > 0 ? static_cast<int>(options.threads) : cores);
}

// One rank, whatever number of them saved the checkpoint: a gather for each token would take longer than the token.
void sample_rank(fsdp::World& world, const SampleInputs& inputs, const SampleOptions& options,
                 const std::function<void()>& loaded) {
  const std::shared_ptr<models::LanguageModel> model = models::make_deferred_model(options.model, world.device());
  auto sharded = fsdp::shard(*model, world, sharding_of(options));
  if (inputs.is_exported) {
    fsdp::load_pretrained(inputs.folder, sharded, models::pretrained_options(options.model));
  } else {
    const auto load = [&](const std::filesystem::path& folder) { fsdp::load_checkpoint(folder, {.model = &sharded}); };
    load_newest(inputs.checkpoint, load, print_error);
  }
  loaded();
  use_all_cores(options);
  print_samples(*model, inputs, options, world.device());
}

}  // namespace

int sample_command(const SampleInputs& inputs, const SampleOptions& given) {
  constexpr int kUsageError = 2, kThrew = 1;
  SampleOptions options = given;
  options.strategy = "no-shard";
  options.shard_group_size = 0;
  if (!options.model_options.vocabulary && !inputs.is_exported) {
    options.model.vocabulary = std::max(options.model.vocabulary, inputs.tokenizer->vocabulary());
  }
  SharedFlag is_loaded;
  auto rank = [&](fsdp::World& world) { sample_rank(world, inputs, options, [&] { is_loaded.set(); }); };
  const int code =
      fsdp::launch({.ranks = 1, .timeout = std::chrono::seconds(options.timeout), .plain_rank0 = true}, rank);
  return !is_loaded.is_set() && code == kThrew ? kUsageError : code;
}

}  // namespace trainer
