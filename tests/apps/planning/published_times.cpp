#include "planning/published_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "models/model_sizes.h"
#include "plan/megatron_step.h"
#include "plan/sharded_run.h"
#include "planning/hardware_file.h"
#include "planning/planned_time.h"
#include "planning/transformer_shape.h"

namespace trainer {

namespace {

using namespace fsdp::plan;

TransformerShape shape_of(const std::string& model) { return transformer_shape(models::config_of_size(model).value()); }

// The ranks of YaFSDP's table have a network of 100 Gbit/s each: the one number that is free there.
Hardware a100_of_yafsdp() {
  Hardware hardware = hardware_of("a100-80");
  hardware.network_bandwidth = 12.5e9;
  return hardware;
}

// The H100 of torchtitan's table have HBM2e at 2.4 TB/s, and a limit of power.
Hardware h100_of_torchtitan() {
  Hardware hardware = hardware_of("h100");
  hardware.memory_bandwidth = 2.4e12;
  hardware.sustained = 0.66;
  return hardware;
}

struct YaFsdpRow {
  const char* name;
  const char* model;
  int64_t ranks, sequence, recomputed;
  double yafsdp, fsdp;
};

// https://github.com/yandex/YaFSDP: A100, a batch of 1 per rank.
constexpr std::array<YaFsdpRow, 16> kYaFsdp = {{{"Llama 2 7B", "llama2-7b", 64, 2048, 0, 0.81, 0.90},
                                                {"Llama 2 7B", "llama2-7b", 64, 4096, 0, 1.16, 1.21},
                                                {"Llama 2 7B", "llama2-7b", 64, 8192, 0, 2.23, 2.29},
                                                {"Llama 2 7B", "llama2-7b", 128, 2048, 0, 0.87, 0.97},
                                                {"Llama 2 7B", "llama2-7b", 128, 4096, 0, 1.19, 1.22},
                                                {"Llama 2 7B", "llama2-7b", 128, 8192, 0, 2.25, 2.31},
                                                {"Llama 2 13B", "llama2-13b", 128, 2048, 0, 1.55, 1.76},
                                                {"Llama 2 13B", "llama2-13b", 128, 4096, 0, 2.06, 2.14},
                                                {"Llama 2 34B", "llama2-34b", 128, 2048, 0, 3.39, 4.27},
                                                {"Llama 2 34B", "llama2-34b", 256, 2048, 0, 3.51, 4.50},
                                                {"Llama 2 34B", "llama2-34b", 256, 4096, 5, 5.33, 5.81},
                                                {"Llama 2 70B", "llama2-70b", 256, 2048, 10, 6.97, 8.87},
                                                {"Llama 2 70B", "llama2-70b", 256, 4096, 50, 11.07, 11.93},
                                                {"Llama 3 8B", "llama3-8b", 64, 2048, 0, 0.97, 1.10},
                                                {"Llama 3 8B", "llama3-8b", 64, 4096, 0, 1.36, 1.48},
                                                {"Llama 3 70B", "llama3-70b", 256, 2048, 20, 7.17, 9.76}}};

struct TorchtitanRow {
  const char* name;
  const char* model;
  const char* device;
  int64_t ranks, batch;
  bool is_compiled;
  double seconds;
};

// https://github.com/pytorch/torchtitan: 8192 tokens. Batches are not told there: those of its configurations.
constexpr std::array<TorchtitanRow, 7> kTorchtitan = {{{"Llama 3 8B", "llama3-8b", "H100", 8, 2, false, 2.843},
                                                       {"Llama 3 8B", "llama3-8b", "H100", 8, 2, true, 2.457},
                                                       {"Llama 3 8B", "llama3-8b", "H100", 128, 2, false, 2.923},
                                                       {"Llama 3 8B", "llama3-8b", "H100", 128, 2, true, 2.515},
                                                       {"Llama 3 8B", "llama3-8b", "A100", 64, 1, false, 2.821},
                                                       {"Llama 3 8B", "llama3-8b", "A100", 64, 1, true, 2.755},
                                                       {"Llama 3 70B", "llama3-70b", "A100", 64, 1, false, 24.75}}};

ShardedRun run_of(const char* model, int64_t ranks, int64_t batch, int64_t sequence) {
  return {.shape = shape_of(model), .pass = {.batch = batch, .sequence = sequence}, .ranks = ranks, .group = ranks};
}

std::vector<std::vector<double>> rows_of_vtrain() {
  std::ifstream file(FSDP_VTRAIN);
  if (!file) throw std::runtime_error("cannot read " FSDP_VTRAIN);
  std::vector<std::vector<double>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<double> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(std::stod(cell));
    rows.push_back(std::move(row));
  }
  return rows;
}

// gpus, global_batch, micro_batch, hidden, heads, layers, sequence, tensor, data, pipeline, milliseconds
PublishedTime vtrain_time(const std::vector<double>& row, const Hardware& hardware) {
  const auto at = [&](size_t i) { return static_cast<int64_t>(row[i]); };
  const TransformerShape shape{.layers = at(5),
                               .width = at(3),
                               .heads = at(4),
                               .key_value_heads = at(4),
                               .head_width = at(3) / at(4),
                               .mlp_width = 4 * at(3),
                               .vocabulary = 50'257,
                               .positions = at(6)};
  const MegatronRun run{.shape = shape,
                        .batch = at(2),
                        .sequence = at(6),
                        .micro_batches = at(1) / at(2) / at(8),
                        .data = at(8),
                        .pipeline = at(9),
                        .tensor = at(7)};
  return {
      .source = "vTrain, Megatron-DeepSpeed",
      .setting = fmt::format("{} layers of {}, {} x {} x {}, batches of {}", at(5), at(3), at(8), at(9), at(7), at(2)),
      .measured = row[10] / 1000,
      .predicted = megatron_step(run, MegatronEngine(), hardware).step};
}

}  // namespace

std::vector<PublishedTime> published_times() {
  std::vector<PublishedTime> times;
  for (const YaFsdpRow& row : kYaFsdp) {
    ShardedRun run = run_of(row.model, row.ranks, 1, row.sequence);
    run.recomputed = row.recomputed;
    for (const auto& [engine, measured] : {std::pair("yafsdp", row.yafsdp), std::pair("fsdp1", row.fsdp)}) {
      times.push_back(
          {.source = fmt::format("YaFSDP's authors, {}", engine == std::string("fsdp1") ? "FSDP" : "YaFSDP"),
           .setting = fmt::format("{}, {} A100, {} tokens", row.name, row.ranks, row.sequence),
           .measured = measured,
           .predicted = step_seconds(run, sharded_engine(engine), a100_of_yafsdp()).step});
    }
  }
  for (const TorchtitanRow& row : kTorchtitan) {
    ShardedRun run = run_of(row.model, row.ranks, row.batch, 8192);
    const bool is_small = run.shape.layers == 32;
    run.is_selective = is_small;
    run.recomputed = is_small ? 0 : run.shape.layers;
    const bool is_h100 = row.device == std::string("H100");
    times.push_back(
        {.source = "torchtitan",
         .setting = fmt::format("{}, {} {}{}", row.name, row.ranks, row.device, row.is_compiled ? ", compiled" : ""),
         .measured = row.seconds,
         .predicted = step_seconds(run, sharded_engine("fsdp1", row.is_compiled),
                                   is_h100 ? h100_of_torchtitan() : hardware_of("a100-80"))
                          .step,
         .is_fitted = is_h100});
  }
  return times;
}

std::vector<PublishedTime> vtrain_times() {
  std::vector<std::vector<double>> rows = rows_of_vtrain();
  // By tensor, micro-batch, width, pipeline, data, layers, batch and time.
  std::ranges::sort(rows, {}, [](const std::vector<double>& row) {
    return std::tuple(row[7], row[2], row[3], row[9], row[8], row[5], row[1], row[10]);
  });
  const Hardware hardware = [] {
    Hardware a100 = hardware_of("a100-80");
    a100.sustained = 1;  // products between slow operators lose nothing
    return a100;
  }();
  std::vector<PublishedTime> times;
  for (size_t i = 0; i < rows.size(); ++i) {
    times.push_back(vtrain_time(rows[i], hardware));
    times.back().is_fitted = i % 12 == 0;
  }
  return times;
}

namespace {

struct H200Row {
  const char* setting;
  const char* engine;
  const TransformerShape& shape;
  int64_t batch, sequence;
  bool clips, recomputes;
  int64_t element;
  double milliseconds;
};

TransformerShape gpt(int64_t layers, int64_t width, int64_t heads, int64_t positions) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .key_value_heads = heads,
          .head_width = width / heads,
          .mlp_width = 4 * width,
          .vocabulary = 50'304,
          .positions = positions};
}

// That machine's host is slow.
ShardedEngine engine_on_h200(const std::string& name) {
  ShardedEngine engine = sharded_engine(name);
  engine.host_of_step = 0;
  if (name == "libfsdp") {
    engine.launch_forward = 65e-6;
    engine.launch_backward = 26e-6;
    return engine;
  }
  engine.launch_forward = 100e-6;
  engine.launch_backward = 16e-6;
  engine.update_host = 0.3e-3;
  engine.update_bytes = 30;
  engine.host_of_unit = 1.1e-3;
  engine.update_host_of_tensor = 33e-6;
  engine.clip_host_of_tensor = 160e-6;
  return engine;
}

}  // namespace

std::vector<PublishedTime> h200_times() {
  const TransformerShape small = gpt(12, 768, 12, 1024), tiny = gpt(12, 768, 12, 256), large = gpt(24, 2048, 16, 1024);
  const H200Row rows[] = {{"124 M, 8 x 1024", "libfsdp", small, 8, 1024, false, false, 2, 27.8},
                          {"124 M, 8 x 1024, clipped", "libfsdp", small, 8, 1024, true, false, 2, 33.2},
                          {"124 M, 8 x 1024", "fsdp2", small, 8, 1024, false, false, 2, 65.9},
                          {"124 M, 8 x 1024, clipped", "fsdp2", small, 8, 1024, true, false, 2, 90.9},
                          {"123 M, 1 x 256", "libfsdp", tiny, 1, 256, false, false, 2, 22.8},
                          {"123 M, 1 x 256", "fsdp2", tiny, 1, 256, false, false, 2, 61.7},
                          {"1.3 B, 4 x 1024", "libfsdp", large, 4, 1024, false, false, 2, 87.4},
                          {"1.3 B, 4 x 1024", "fsdp2", large, 4, 1024, false, false, 2, 152.2},
                          {"1.3 B, 4 x 1024, recomputed", "libfsdp", large, 4, 1024, false, true, 2, 103.6},
                          {"1.3 B, 4 x 1024, recomputed", "fsdp2", large, 4, 1024, false, true, 2, 153.0},
                          {"124 M, 8 x 1024, fp32", "libfsdp", small, 8, 1024, false, false, 4, 163.2},
                          {"124 M, 8 x 1024, fp32", "fsdp2", small, 8, 1024, false, false, 4, 170.8}};
  std::vector<PublishedTime> times;
  for (const H200Row& row : rows) {
    const ShardedRun run{
        .shape = row.shape,
        .pass = {.batch = row.batch, .sequence = row.sequence, .element = row.element, .has_wide_loss = false},
        .recomputed = row.recomputes ? row.shape.layers : 0,
        .clips = row.clips};
    times.push_back({.source = fmt::format("one H200, {}", row.engine),
                     .setting = row.setting,
                     .measured = row.milliseconds / 1000,
                     .predicted = step_seconds(run, engine_on_h200(row.engine), hardware_of("h200")).step,
                     .is_fitted = true});
  }
  return times;
}

namespace {

struct CpuRow {
  int64_t ranks, width, layers, context, batch, micro_batches;
  const char* strategy;
  const char* dtype;
  bool recomputes;
  double seconds;  // the median of steps 4 to 14 of two runs
};

// fsdp-train of GPT-2 with heads of 64 and 256 bytes as its vocabulary, on an AMD EPYC with two cores (Zen 5), beside
// the calibration of apps/planning/hardware/cpu.toml.
constexpr std::array<CpuRow, 11> kCpu = {{{1, 256, 4, 256, 4, 1, "full-shard", "fp32", false, 0.1577},
                                          {2, 256, 4, 256, 4, 1, "full-shard", "fp32", false, 0.2773},
                                          {2, 384, 6, 128, 8, 1, "shard-grad-op", "fp32", false, 0.8223},
                                          {1, 192, 8, 64, 16, 1, "full-shard", "fp32", false, 0.1954},
                                          {2, 320, 2, 512, 2, 2, "no-shard", "fp32", false, 0.4591},
                                          {1, 768, 2, 128, 4, 1, "full-shard", "fp32", false, 0.2740},
                                          {2, 256, 4, 256, 4, 1, "full-shard", "bf16", false, 0.1269},
                                          {1, 384, 4, 128, 8, 1, "full-shard", "fp32", true, 0.3474},
                                          {1, 512, 3, 256, 2, 1, "full-shard", "fp32", false, 0.1972},
                                          {2, 512, 4, 128, 4, 1, "full-shard", "bf16", false, 0.1762},
                                          {1, 384, 6, 128, 8, 1, "full-shard", "bf16", false, 0.1927}}};

PublishedTime cpu_time(const CpuRow& row, const Hardware& hardware) {
  RunOptions options;
  options.model = {
      .vocabulary = 256, .context = row.context, .width = row.width, .layers = row.layers, .heads = row.width / 64};
  options.ranks = row.ranks;
  options.batch = row.batch;
  options.micro_batches = row.micro_batches;
  options.strategy = row.strategy;
  options.param_dtype = row.dtype;
  options.activation_checkpoint = row.recomputes ? "all" : "none";
  std::string setting = fmt::format("{} layers of {}, {} x {} x {} tokens, {}", row.layers, row.width,
                                    row.micro_batches, row.batch, row.context, row.dtype);
  if (row.ranks > 1) setting += fmt::format(", {}", row.strategy);
  if (row.recomputes) setting += ", recomputed";
  return {.source = fmt::format("fsdp-train, {} of 2 cores", row.ranks == 1 ? "1 rank" : "2 ranks"),
          .setting = setting,
          .measured = row.seconds,
          .predicted = planned_step({.hardware = hardware, .memory = hardware.memory}, options).value().step};
}

}  // namespace

std::vector<PublishedTime> cpu_times() {
  const Hardware hardware = hardware_of(FSDP_MEASURED_CPU);
  std::vector<PublishedTime> times;
  for (const CpuRow& row : kCpu) times.push_back(cpu_time(row, hardware));
  return times;
}

ErrorSummary summary_of(const std::vector<PublishedTime>& times, bool of_fitted) {
  std::vector<double> errors;
  for (const PublishedTime& time : times) {
    if (time.is_fitted == of_fitted) errors.push_back(std::abs(time.error()));
  }
  if (errors.empty()) return {};
  std::ranges::sort(errors);
  const size_t count = errors.size();
  return {.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(count),
          .median = (errors[(count - 1) / 2] + errors[count / 2]) / 2,
          .nine_in_ten = errors[std::min(count - 1, count * 9 / 10)],
          .worst = errors.back(),
          .rows = count};
}

}  // namespace trainer
