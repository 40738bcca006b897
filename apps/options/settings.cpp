#include "options/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "console/paragraph.h"
#include "console/units.h"
#include "data/data_notes.h"
#include "options/frozen.h"
#include "options/mesh_choice.h"
#include "options/option_value.h"
#include "options/rank_range.h"
#include "options/resolve.h"

namespace trainer {

namespace {

std::string learning_rate_text(const RunOptions& options) {
  const std::string peak = fmt::format("{:.3g}", options.lr);
  if (options.schedule == "constant") return peak;
  const std::string fall = options.schedule == "wsd" ? fmt::format(" in the last {} steps", *options.decay_steps) : "";
  return fmt::format("{} falling to {:.3g}{} ({})", peak, options.lr * options.final_lr, fall, options.schedule);
}

std::string step_text(const RunOptions& options) {
  std::string text = fmt::format(
      "{} x {} x {} x {} = {} tokens", counted(options.data_ranks(), options.has_mesh() ? "data rank" : "rank"),
      counted(options.micro_batches, "micro-batch", "micro-batches"), counted(options.batch, "sequence"),
      options.model.context, grouped(options.tokens_per_step()));
  const int64_t asked = options.target_tokens_per_step.value_or(options.tokens_per_step());
  return asked == options.tokens_per_step() ? text : fmt::format("{}, nearest to {}", text, grouped(asked));
}

std::string tokens_text(const RunOptions& options, const data::Corpus& corpus) {
  const int64_t vocabulary = options.model.vocabulary;
  if (!corpus.tokenizer) return fmt::format("of unknown text, a vocabulary of {}", grouped(vocabulary));
  const int64_t used = corpus.tokenizer->vocabulary();
  return fmt::format("{}, a vocabulary of {}{}", corpus.tokenizer->name(), grouped(vocabulary),
                     used < vocabulary ? fmt::format(", of which the tokenizer has {}", grouped(used)) : "");
}

std::string epochs_text(const RunOptions& options, const data::Corpus& corpus) {
  const int64_t windows = corpus.windows(options.model.context);
  const double epochs = static_cast<double>(options.steps) * static_cast<double>(options.step_shape().windows()) /
                        static_cast<double>(windows);
  return fmt::format("{:.3g}: the training data holds {} tokens", epochs, grouped(corpus.training->size()));
}

// Which parameters are trained, where not all are.
std::string trained_text(const RunOptions& options, const std::set<std::string>& frozen) {
  int64_t trained = 0;
  for (const models::Unit& unit : models::units(options.model)) {
    for (const models::Parameter& parameter : unit.parameters) {
      if (!frozen.contains(parameter.name)) trained += parameter.numel();
    }
  }
  const int64_t all = models::parameter_numel(options.model);
  std::string text = fmt::format("{} of the parameters ({:.2g} %)", grouped(trained),
                                 100.0 * static_cast<double>(trained) / static_cast<double>(all));
  if (const auto& lora = options.model.lora) {
    text +=
        fmt::format(": adapters of rank {}, alpha {}, at {}", lora->rank, lora->alpha, fmt::join(lora->targets, ", "));
  }
  return text;
}

struct SourceLine {
  std::string path, text;
};

// The tokens, shares and epochs of several sources.
std::vector<SourceLine> source_lines(const RunOptions& options, const data::Corpus& corpus) {
  if (corpus.sources.size() < 2) return {};
  double weights = 0;
  for (const data::CorpusSource& source : corpus.sources) weights += source.tokens.weight;
  const data::DataOrder order(corpus.ordered(), options.model.context, static_cast<uint64_t>(options.seed));
  const std::vector<double> epochs = order.epochs_of(options.steps * options.step_shape().windows());
  std::vector<SourceLine> lines;
  for (size_t i = 0; i < epochs.size(); ++i) {
    const data::OrderedSource& tokens = corpus.sources[i].tokens;
    lines.push_back(
        {corpus.sources[i].path, fmt::format("{} tokens, weight {}, {:.1f} % of the training, {:.3g} epochs",
                                             short_number(static_cast<double>(tokens.tokens)), tokens.weight,
                                             100 * tokens.weight / weights, epochs[i])});
  }
  return lines;
}

nlohmann::ordered_json json_of(const Row& row, const RunOptions& options) {
  const std::optional<Scalar> value = value_of(row, options);
  if (value) return std::visit([](const auto& one) { return nlohmann::ordered_json(one); }, *value);
  const bool is_text = std::holds_alternative<std::string AllOptions::*>(row.target) ||
                       std::holds_alternative<std::string ModelOptions::*>(row.target);
  return is_text ? nlohmann::ordered_json("") : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string recomputed_text(const RunOptions& options) {
  const models::Recomputation recomputation = options.recomputation();
  if (recomputation.keeps_products) return "all layers but their products and attention, in the backward";
  if (recomputation.blocks >= options.model.layers) return "all layers, in the backward";
  return fmt::format("{} of the layers, in the backward", recomputation.blocks);
}

std::string restarts_text(const RunOptions& options) {
  std::string text = fmt::format("started again, {} at most", counted(options.restarts(), "time"));
  if (options.hot_restart) text += ", from memory where that is whole";
  if (const auto range = rank_range_in(options.elastic)) {
    text += fmt::format(", on {} to {} ranks", range->least, range->most);
  }
  return text;
}

std::string settings_table(const RunOptions& options, const data::Corpus& corpus, const std::string& places) {
  const models::ModelConfig& model = options.model;
  std::string table;
  constexpr size_t kIndent = 17, kWidth = 80;  // narrower terminals wrap
  auto row = [&](const char* name, const std::string& value) { table += paragraph(name, value, kIndent, kWidth); };
  const int64_t held_back = corpus.validation ? corpus.validation->size() : 0;
  row("data",
      fmt::format("{}: {} tokens to train on, {} for validation", options.text.empty() ? options.data : options.text,
                  short_number(static_cast<double>(corpus.training->size())),
                  short_number(static_cast<double>(held_back))));
  for (const auto& [path, text] : source_lines(options, corpus)) row("", fmt::format("{}: {}", path, text));
  for (const std::string& note : data::data_notes(corpus)) row("", note);
  row("tokens", tokens_text(options, corpus));
  row("model", fmt::format("{}, {} parameters: {} of width {}, {}, context {}", models::name_of(model.family),
                           grouped(models::parameter_numel(model)), counted(model.layers, "layer"), model.width,
                           counted(model.heads, "head"), model.context));
  if (const auto frozen = frozen_parameters(options); !frozen.empty()) row("trained", trained_text(options, frozen));
  row("ranks", fmt::format("{}, {} per rank", counted(options.ranks, "rank"), counted(options.threads, "thread")));
  if (options.has_mesh() || options.parts() > 1) row("mesh", mesh_text(options, places));
  if (options.restarts() > 0) row("after failures", restarts_text(options));
  row("sharding",
      options.strategy + (options.shard_group_size == 0
                              ? std::string()
                              : fmt::format(" in groups of {}", counted(options.shard_group_size, "rank"))));
  if (options.cpu_offload) row("of GPUs", "shards and the optimizer's state in the host's memory");
  if (options.offloads())
    row("in files", options.offload == "all" ? "the model and the optimizer's state" : "the optimizer's state");
  if (options.offload_activations) row(options.offloads() ? "" : "in files", "activations");
  row("dtypes", fmt::format("parameters {}{}, gradients between ranks {}", options.param_dtype,
                            options.scales_loss() ? " (scaled loss)" : "", options.reduce_dtype));
  if (options.activation_checkpoint != "none") row("recomputed", recomputed_text(options));
  if (options.activation_memory) {
    row("activations", fmt::format("{} per rank at most; the first step measures what layers may keep",
                                   short_bytes(static_cast<size_t>(*options.activation_memory))));
  }
  row("per step", step_text(options));
  if (!options.planned.figures.empty()) {
    row("planned", options.planned.flags.empty() ? "nothing" : options.planned.flags);
    row("", options.planned.figures);
  }
  row("steps", fmt::format("{}, {} of them warm-up", options.steps, *options.warmup));
  row("epochs", epochs_text(options, corpus));
  row("learning rate", learning_rate_text(options));
  row(options.optimizer == "muon" ? "Muon, AdamW" : "AdamW",
      fmt::format("betas {} and {}, weight decay {}, gradient clipped at {}", options.beta1, options.beta2,
                  options.weight_decay, options.clip));
  if (options.optimizer_state != "fp32") row("moments", "kept in " + options.optimizer_state);
  row("seed", fmt::format("{}", options.seed));
  row("run", options.run);
  if (!options.checkpoint.empty()) row("goes on from", options.checkpoint);
  return table;
}

std::string setting_text(const Row& row, const RunOptions& options) {
  const nlohmann::ordered_json json = json_of(row, options);
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::string settings_json(const RunOptions& options) {
  nlohmann::ordered_json json;
  for (const Row& row : option_rows()) {
    if (row.in_file() && row.is_for(Command::Train)) json[row.key()] = json_of(row, options);
  }
  const models::ModelConfig& model = options.model;
  json["vocabulary"] = model.vocabulary;
  json["context"] = model.context;
  json["width"] = model.width;
  json["layers"] = model.layers;
  json["heads"] = model.heads;
  json["parameters"] = models::parameter_numel(model);
  json["tokens_per_step"] = options.tokens_per_step();
  json["defaults_version"] = options.defaults_version;
  // Paths and prompts need not be UTF-8, JSON must be.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trainer
