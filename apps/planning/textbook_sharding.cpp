// ZeRO's stages, FSDP's traffic across hosts, and YaFSDP's formula.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/model_sizes.h"
#include "planning/mesh_traffic.h"
#include "planning/model_parts.h"
#include "planning/planned_mesh.h"
#include "planning/planned_sharding.h"
#include "planning/textbook_topics.h"

namespace trainer {

namespace {

// ZeRO's model and ranks (Figure 1 of the paper). The layers are ours: the paper does not say.
constexpr double kZeroNumel = 7.5e9;
constexpr int64_t kZeroRanks = 64, kZeroLayers = 40;

std::vector<fsdp::plan::Unit> zero_units() {
  return {static_cast<size_t>(kZeroLayers), {{.numel = static_cast<int64_t>(kZeroNumel) / kZeroLayers}}};
}

fsdp::plan::StateMemory zero_state(const std::string& strategy) {
  return state_on_gpus(zero_units(), strategy, kZeroRanks, "bf16");
}

double gigabytes(int64_t bytes) { return static_cast<double>(bytes) / kGigabyte; }

// The parts of a rank's memory, for the reason of a difference.
std::string parts_text(const char* name, const fsdp::plan::StateMemory& state) {
  std::string text = fmt::format("{}: shards, sums and moments {:.3g} GB", name,
                                 gigabytes(state.parameters + state.gradients + state.optimizer));
  if (state.full_parameters > 0) text += fmt::format(", full units {:.3g}", gigabytes(state.full_parameters));
  if (state.full_gradients > 0)
    text += fmt::format(", gradients before their sums {:.3g}", gigabytes(state.full_gradients));
  return text + ".";
}

struct ZeroStage {
  const char* id;
  const char* name;
  const char* strategy;
  const char* our_name;
  const char* formula;
  double whole, divided;  // bytes per parameter: on each rank, and over all ranks
  double published;
  const char* why;

  double bytes(double ranks) const { return kZeroNumel * (whole + divided / ranks); }
};

constexpr ZeroStage kStages[] = {
    {"baseline", "Data parallelism", "no-shard", "NoShard", "16 P", 16, 0, 120,
     "18 bytes per parameter: sums of gradients are in fp32. Gradients pass through three buffers of a unit each."},
    {"stage-1", "Stage 1", "shard-optimizer", "ShardOptimizer", "4 P + 12 P / N", 4, 12, 31.4,
     "As stage 2 of ZeRO: each unit is reduced at once, and only the sums of a shard are kept."},
    {"stage-2", "Stage 2", "shard-grad-op", "ShardGradOp", "2 P + 14 P / N", 2, 14, 16.6,
     "Gradients pass through three buffers of a unit each."},
    {"stage-3", "Stage 3", "full-shard", "FullShard", "16 P / N", 0, 16, 1.88,
     "18 bytes are divided, not 16, and a few units are whole at a time; these do not shrink with N."}};

TextbookRow stage_row(const ZeroStage& stage) {
  const fsdp::plan::StateMemory state = zero_state(stage.strategy);
  return {.id = fmt::format("zero-{}", stage.id),
          .what = stage.name,
          .source = "ZeRO",
          .formula = stage.formula,
          .unit = "GB",
          .published = stage.published,
          .recomputed = stage.bytes(kZeroRanks) / kGigabyte,
          .ours = gigabytes(state.total()),
          .why = fmt::format("{} {}", parts_text(stage.our_name, state), stage.why)};
}

TextbookRow factor_row(const ZeroStage& stage, double published, const char* formula, double recomputed) {
  const auto whole = static_cast<double>(zero_state("no-shard").total());
  return {
      .id = fmt::format("zero-{}-factor", stage.id),
      .what = fmt::format("{}: memory falls by a factor of", stage.name),
      .source = "ZeRO",
      .formula = formula,
      .unit = "x",
      .published = published,
      .recomputed = recomputed,
      .ours = whole / static_cast<double>(zero_state(stage.strategy).total()),
      .why = fmt::format("On 64 ranks the source's formula gives {:.3g}; ours is {} beside NoShard, which holds more "
                         "than 16 P.",
                         kStages[0].bytes(kZeroRanks) / stage.bytes(kZeroRanks), stage.our_name)};
}

// Ranks on CPUs, in fp32.
TextbookRow host_memory_row(const char* id, const char* what, const ZeroStage& stage, int64_t hosts, const char* why) {
  RunOptions options;
  options.strategy = stage.strategy;
  options.ranks = kZeroRanks;
  options.no_save = true;
  const fsdp::plan::StateMemory state = state_memory(zero_units(), planned_sharding(options, hosts)).back();
  return {.id = id,
          .what = what,
          .source = "ZeRO",
          .formula = stage.formula,
          .unit = "GB",
          .published = stage.published,
          .recomputed = stage.bytes(kZeroRanks) / kGigabyte,
          .ours = gigabytes(state.total()),
          .why = fmt::format("{} {}", parts_text(stage.our_name, state), why)};
}

// A real model, in fp32: volumes are in parameters.
constexpr int64_t kVolumeRanks = 64, kVolumeHosts = 8;
constexpr const char* kVolumeModel = "gpt3-6.7b";

// Bytes that a rank receives in a step, as shares of the model's.
fsdp::plan::Traffic received(const std::string& strategy, bool on_gpus = true) {
  RunOptions options;
  options.model = *models::config_of_size(kVolumeModel);
  options.ranks = kVolumeRanks;
  options.batch = 1;
  options.strategy = strategy;
  const fsdp::plan::Mesh mesh = planned_mesh(options);
  const fsdp::plan::MeshPlaces places(mesh.sizes, kVolumeHosts);
  const fsdp::plan::Traffic sum = traffic_of_rank(options, on_gpus, mesh, places, {}).sum();
  const double model = 4 * static_cast<double>(models::parameter_numel(options.model));
  return {.within = sum.within / model, .across = sum.across / model};
}

TextbookRow volume_row(const char* id, const char* what, const char* formula, double published, const char* strategy,
                       const char* why) {
  return {.id = id,
          .what = what,
          .source = "ZeRO",
          .formula = formula,
          .unit = "P",
          .published = published,
          .recomputed = published,
          .ours = received(strategy).sum(),
          .why = why};
}

// The paper gives formulas alone.
TextbookRow host_row(const char* id, const char* what, const char* formula, double value, const char* strategy,
                     std::string why) {
  return {.id = id,
          .what = what,
          .source = "FSDP",
          .formula = formula,
          .unit = "M",
          .published = value,
          .recomputed = value,
          .ours = received(strategy).across,
          .why = std::move(why)};
}

}  // namespace

TextbookTopic zero_stages() {
  TextbookTopic topic{.title = "ZeRO: memory",
                      .setting = "P = 7.5 B parameters, N = 64 ranks. Ours: bf16 on GPUs, 40 equal units.",
                      .rows = {}};
  for (const ZeroStage& stage : kStages) topic.rows.push_back(stage_row(stage));
  topic.rows.push_back(factor_row(kStages[1], 4, "16 / 4, many ranks", 16.0 / 4));
  topic.rows.push_back(factor_row(kStages[2], 8, "16 / 2, many ranks", 16.0 / 2));
  topic.rows.push_back(factor_row(kStages[3], kZeroRanks, "N", kZeroRanks));
  return topic;
}

TextbookTopic zero_on_hosts() {
  return {.title = "ZeRO: memory of ranks on CPUs",
          .setting = "The same model in fp32, on 64 ranks of CPUs. A rank that is not the first of its host.",
          .rows = {host_memory_row("zero-baseline-one-host", "Data parallelism on one host", kStages[0], 1,
                                   "Equal: sums take the place of the gradients."),
                   host_memory_row(
                       "zero-baseline-hosts", "Data parallelism on 8 hosts", kStages[0], 8,
                       "Gradients that other hosts wait for cannot become sums: they pass through three buffers of a "
                       "unit each, with running sums of 7 other hosts."),
                   host_memory_row(
                       "zero-stage-1-hosts", "Stage 1 on 8 hosts", kStages[1], 8,
                       "The ranks of a host hold its full units together. Gradients pass through three buffers.")}};
}

TextbookTopic volumes() {
  return {
      .title = "ZeRO: volume of communication",
      .setting =
          "Elements that a rank receives in a step, in parameters P. Ours: GPT-3 6.7 B on 64 GPUs, one micro-batch; "
          "(N - 1) / N of each tensor comes from other ranks.",
      .rows = {volume_row("volume-ddp", "Data parallelism (DDP)", "2 P", 2, "no-shard",
                          "Equal, but for the factor (N - 1) / N: sums are a scatter and a gather."),
               volume_row("volume-stage-1", "Stage 1", "2 P", 2, "shard-optimizer",
                          "Equal, but for that factor: gradients are reduced, parameters gathered once."),
               volume_row("volume-stage-2", "Stage 2", "2 P", 2, "shard-grad-op", "Equal, but for that factor."),
               volume_row("volume-stage-3", "Stage 3", "3 P", 3, "full-shard",
                          "The last two units of the forward are still whole in the backward; the tied embedding "
                          "is gathered for both of its uses.")}};
}

TextbookTopic traffic_across_hosts() {
  constexpr double kW = kVolumeRanks, kG = kW / kVolumeHosts;
  return {
      .title = "FSDP: traffic across hosts",
      .setting =
          "Received per GPU and step, in model sizes M: W = 64 GPUs, G = 8 per host. The source counts all traffic of "
          "a "
          "collective that spans hosts. Ours go around a ring in which the 8 ranks of a host are neighbours: an "
          "eighth of them crosses hosts.",
      .rows = {
          host_row("hosts-replication", "Full replication", "2 M (W - 1) / W", 2 * (kW - 1) / kW, "no-shard",
                   "An eighth: 2 M 63 / 64 / 8."),
          host_row("hosts-full-shard", "Full sharding", "3 M (W - 1) / W", 3 * (kW - 1) / kW, "full-shard",
                   "An eighth, and units at the turn from forward to backward are not gathered again."),
          host_row(
              "hosts-hybrid", "Hybrid sharding", "2 M (W - 1) / (G W)", 2 * (kW - 1) / (kG * kW), "hybrid-shard",
              fmt::format(
                  "Gathers stay on the host. A sum over all ranks goes around the ring, M 63 / 64 / 8, and replicas "
                  "exchange their slices, M 7 / 64. Hosts of CPUs send sums, and receive {:.3g} M.",
                  received("hybrid-shard", /*on_gpus=*/false).across))}};
}

TextbookTopic largest_layer() {
  const models::ModelConfig llama = *models::config_of_size("llama2-70b");
  constexpr int64_t kRanks = 256;
  const std::vector<fsdp::plan::Unit> units = parts_of(llama).units;
  const fsdp::plan::StateMemory state = state_on_gpus(units, "full-shard", kRanks, "bf16");
  int64_t layer = 0;
  for (const fsdp::plan::Unit& unit : units) layer = std::max(layer, numel_of(unit));
  const auto numel = static_cast<double>(models::parameter_numel(llama));
  const auto divided = static_cast<double>(state.parameters + state.gradients + state.optimizer);
  const auto whole = static_cast<double>(state.full_parameters + state.full_gradients);
  const double formula = (18 * numel / kRanks + 12 * static_cast<double>(layer)) / kGigabyte;
  return {.title = "YaFSDP: 18 bytes and the largest layer",
          .setting = "18 bytes per parameter / N + 12 bytes x largest layer. Ours: Llama 2 70B on 256 GPUs, in bf16.",
          .rows = {
              {.id = "yafsdp-divided",
               .what = "Divided among the ranks, per parameter",
               .source = "YaFSDP",
               .formula = "4 + 2 + 4 + 8",
               .unit = "bytes",
               .published = 18,
               .recomputed = 4 + 2 + 4 + 8,
               .ours = divided * kRanks / numel,
               .why = "Equal, up to padding."},
              {.id = "yafsdp-layer",
               .what = "Buffers, per parameter of the largest layer",
               .source = "YaFSDP",
               .formula = "2 x 2 + 2 x 4",
               .unit = "bytes",
               .published = 12,
               .recomputed = 2 * 2 + 2 * 4,
               .ours = whole / static_cast<double>(layer),
               .why = "Two full units as there, and three buffers of gradients: the unit of embedding and head is open "
                      "from the first backward operator to the last."},
              {.id = "yafsdp-together",
               .what = "Llama 2 70B on 256 GPUs, state and buffers",
               .source = "YaFSDP",
               .formula = "18 P / N + 12 L",
               .unit = "GB",
               .published = formula,
               .recomputed = formula,
               .ours = (divided + whole) / kGigabyte,
               .why = "The third buffer of gradients."}}};
}

}  // namespace trainer
