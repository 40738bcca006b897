#include "training/evaluate_command.h"

#include <fmt/format.h>
#include <fsdp/fsdp.h>

#include <cmath>

#include "console/terminal.h"
#include "console/units.h"
#include "data/text_files.h"
#include "metrics/fields.h"
#include "models/hugging_face_weights.h"
#include "options/mesh_choice.h"
#include "run/checkpoint_folder.h"
#include "run/first_rank.h"
#include "run/problems.h"
#include "run/refuse_together.h"
#include "run/sharding.h"
#include "run/shared_flag.h"
#include "training/evaluate.h"
#include "training/job_options.h"

namespace trainer {

namespace {

// Fills the model, and says what with: the step is 0 for weights from elsewhere.
EvaluationRecord load_weights(fsdp::World& world, const RunOptions& options, const NewestCheckpoint& checkpoint,
                              RunMesh& mesh, fsdp::ShardedModel& sharded) {
  EvaluationRecord record;
  if (checkpoint.newest_first.empty()) {
    record.weights = options.model_options.init_from;
    fsdp::PretrainedOptions pretrained = models::pretrained_options(options.model);
    pretrained.mesh = mesh.mesh();
    fsdp::load_pretrained(record.weights, sharded, pretrained);
    return record;
  }
  const auto load = [&](const std::filesystem::path& folder) {
    record.step = fsdp::load_checkpoint(folder, {.model = &sharded, .mesh = mesh.mesh()});
    check_step_in_name(folder, record.step);
  };
  const auto tell = [&](const std::string& text) {
    if (world.rank() == 0) print_error(text);
  };
  record.weights = load_newest(checkpoint, load, tell).string();
  return record;
}

EvaluationRecord evaluate(fsdp::World& world, const RunOptions& options, const data::Corpus& corpus,
                          const NewestCheckpoint& checkpoint) {
  RunMesh mesh(world, options);
  const std::unique_ptr<TrainedModel> model = make_trained_model(options, mesh);
  auto sharded = mesh.shard(model->module(), sharding_of(options));
  EvaluationRecord record = load_weights(world, options, checkpoint, mesh, sharded);
  const bool shows_progress = world.rank() == 0 && standard_output().interactive && !options.json;
  const auto show = [](int64_t done, int64_t total) {
    const double percent = std::floor(100.0 * static_cast<double>(done) / static_cast<double>(total));
    draw(done < total ? fmt::format("\revaluated {:.0f} %", percent) : std::string("\r\033[K"));
  };
  const auto loss = mean_loss({.world = mesh.data(),
                               .model = *model,
                               .tokens = *corpus.validation,
                               .windows = options.validation_windows,
                               .on_progress = shows_progress ? show : decltype(Evaluation::on_progress)()});
  if (!std::isfinite(loss->nats)) {
    throw AgreedError(world, fmt::format("the validation loss of {} is not finite ({}). These weights are of no use: "
                                         "evaluate an earlier checkpoint.",
                                         record.weights, std::isnan(loss->nats) ? "nan" : "infinite"));
  }
  record.validation_loss = loss->nats;
  record.perplexity = std::exp(loss->nats);
  record.tokens = loss->tokens;
  return record;
}

std::string data_text(const RunOptions& options, const data::Corpus& corpus) {
  const std::string& training = options.text.empty() ? options.data : options.text;
  const std::string text = options.validation.empty() ? "the end of " + training : options.validation;
  return fmt::format("{}: {} tokens to validate with", text, grouped(corpus.validation->size()));
}

std::string text_of_evaluation(const EvaluationRecord& record, const RunOptions& options, const data::Corpus& corpus) {
  std::string text;
  auto row = [&](const char* name, const std::string& value) { text += fmt::format("  {:<14}{}\n", name, value); };
  row("weights", record.weights + (record.step > 0 ? fmt::format(", step {}", record.step) : ""));
  row("model", fmt::format("{}, {} parameters", models::name_of(options.model.family),
                           grouped(models::parameter_numel(options.model))));
  row("data", data_text(options, corpus));
  row("ranks", fmt::format("{}", options.ranks));
  return text +
         fmt::format("\nvalidation loss {:.4f} nats per token ({:.4f} bits), perplexity {:.4f}, over {} tokens\n",
                     record.validation_loss, record.validation_loss / std::log(2.0), record.perplexity,
                     grouped(record.tokens));
}

}  // namespace

int evaluate_command(const RunOptions& given, const data::Corpus& corpus, const NewestCheckpoint& checkpoint,
                     const std::vector<std::string>& problems) {
  constexpr int kThrew = 1;
  SharedFlag bad_input, refused;
  auto rank = [&](fsdp::World& world) {
    if (refuse_together(world, problems)) return refused.set();
    RunOptions options = given;
    options.ranks = world.size();
    keep_parts(options, world, checkpoint.newest_first.empty() ? "" : checkpoint.newest_first.front());
    if (refuse_together(world, mesh_problems(options))) return refused.set();
    if (options.threads > 0) torch::set_num_threads(static_cast<int>(options.threads));
    try {
      const EvaluationRecord record = evaluate(world, options, corpus, checkpoint);
      if (world.rank() != 0) return;
      print(options.json ? line_of(to_json(record)) + "\n" : text_of_evaluation(record, options, corpus));
    } catch (const AgreedError& error) {
      if (world.rank() == 0) print_problems({error.what()});
      refused.set();
    } catch (const fsdp::Error&) {
      bad_input.set();
      throw;
    }
  };
  const int code = fsdp::launch(
      {.ranks = static_cast<int>(given.ranks), .timeout = std::chrono::seconds(given.timeout), .plain_rank0 = true},
      rank);
  return refused.is_set() || (bad_input.is_set() && code == kThrew) ? kUsageError : code;
}

}  // namespace trainer
