// Each figure of a course or a paper follows from its formula, and ours from our arithmetic; the difference is the one
// that the row explains.
#include "planning/textbook.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "files/json.h"
#include "models/model_sizes.h"
#include "planning/model_parts.h"
#include "planning/textbook_text.h"

namespace trainer {
namespace {

using testing::HasSubstr;

constexpr double kGB = 1e9, kMiB = 1024.0 * 1024;

const std::vector<TextbookTopic>& shared_textbook() {
  static const std::vector<TextbookTopic> topics = textbook();
  return topics;
}

TextbookRow textbook_row(const std::string& id) {
  for (const TextbookTopic& topic : shared_textbook()) {
    for (const TextbookRow& row : topic.rows) {
      if (row.id == id) return row;
    }
  }
  ADD_FAILURE() << "no row " << id;
  return {};
}

double numel_of_model(const char* name) {
  return static_cast<double>(models::parameter_numel(*models::config_of_size(name)));
}

// As the source prints it: half a unit of its last digit, or the deviation that the source itself has.
void expect_published(const std::string& id, double half_a_digit) {
  const TextbookRow row = textbook_row(id);
  EXPECT_NEAR(row.recomputed, row.published, half_a_digit) << id;
}

void expect_ours(const std::string& id, double ours, double tolerance) {
  const TextbookRow row = textbook_row(id);
  EXPECT_NEAR(row.ours, ours, tolerance) << id;
}

TEST(Textbook, HasEachRowOnceWithItsReason) {
  std::set<std::string> ids;
  for (const TextbookTopic& topic : shared_textbook()) {
    EXPECT_FALSE(topic.rows.empty()) << topic.title;
    for (const TextbookRow& row : topic.rows) {
      EXPECT_TRUE(ids.insert(row.id).second) << row.id;
      EXPECT_TRUE(row.why.ends_with(".")) << row.id;
      EXPECT_FALSE(row.formula.empty() || row.source.empty() || row.unit.empty()) << row.id;
    }
  }
}

// 2 + 2 + 12 bytes; ours keep the sums of gradients in fp32: 2 more.
TEST(Textbook, MixedPrecisionTakes16BytesAndOurs18) {
  for (const char* id : {"mixed-parameters", "mixed-gradients", "mixed-optimizer", "mixed-together"})
    expect_published(id, 0);
  expect_ours("mixed-parameters", 2, 0);
  expect_ours("mixed-gradients", 4, 0);
  expect_ours("mixed-optimizer", 12, 0);
  expect_ours("mixed-together", 18, 0);
}

// Bytes of a tensor of context x width in fp32.
constexpr double kGpt2Wide = 4.0 * 1024 * 1600;

// 16 tensors: the inputs of two norms, of four matrices (one four times wider) and of GELU, and queries, keys and
// values. Two norms have two statistics for each token, and attention one for each of 25 heads.
double gpt2_layer(double batch) { return batch * (16 * kGpt2Wide + (4 + 25) * 4 * 1024.0); }

// 16 bytes of state; the 8 of activations are no property of the parameters.
TEST(Textbook, Fp32Takes16BytesAndActivations) {
  expect_published("bytes-fp32", 0);
  const double activations = (48 * gpt2_layer(1) + kGpt2Wide) / numel_of_model("gpt2-xl");
  expect_ours("bytes-fp32", 16 + activations, 0.3);  // and the head and the loss
}

TEST(Textbook, Gpt2IsCountedPartByPart) {
  expect_published("gpt2-parameters", 0);
  expect_published("gpt2-gradients", 0);
  expect_published("gpt2-adam", 0);
  expect_published("gpt2-token-embeddings", 0.006);
  expect_published("gpt2-position-embeddings", 0.0005);
  expect_published("gpt2-layers", 0);  // 48 x 1.171875 GiB
  expect_published("gpt2-together", 0.6);
  const double numel = 1'557'611'200;
  expect_ours("gpt2-parameters", 4 * numel / kGB, 0.01);  // and padding
  expect_ours("gpt2-gradients", 4 * numel / kGB, 0.01);
  expect_ours("gpt2-adam", 8 * numel / kGB, 0.01);  // two moments, not three
  expect_ours("gpt2-position-embeddings", 0, 0);
}

// The same bytes: GiB there, GB here.
TEST(Textbook, Gpt2sActivationsAreMoreThanSixTensorsPerLayer) {
  expect_ours("gpt2-token-embeddings", 32 * kGpt2Wide / kGB, 1e-9);
  expect_ours("gpt2-layers", 48 * gpt2_layer(32) / kGB, 1e-6);
  EXPECT_THAT(textbook_row("gpt2-layers").why, HasSubstr("keeps 16.02 such tensors, not six"));
  double sum = 0;
  for (const char* id : {"parameters", "gradients", "adam", "token-embeddings", "layers"})
    sum += textbook_row(fmt::format("gpt2-{}", id)).ours;
  expect_ours("gpt2-together", sum, 1.1);
  EXPECT_GT(textbook_row("gpt2-together").ours, sum);  // the head and the loss
  expect_ours("gpt2-together", 187, 0.5);
}

TEST(Textbook, FourModelsTake16BytesPerParameter) {
  expect_published("bert-large-memory", 0.005);
  expect_published("gpt2-memory", 0);
  expect_published("turing-nlg-memory", 0.5);
  expect_published("gpt3-memory", 0);
  // One GPU holds 4 + 4 + 8 bytes per parameter, and two of the largest unit in bf16.
  const std::pair<const char*, const char*> models[] = {{"bert-large-memory", "bert-large"},
                                                        {"gpt2-memory", "gpt2-xl"},
                                                        {"turing-nlg-memory", "turing-nlg-17b"},
                                                        {"gpt3-memory", "gpt3-175b"}};
  for (const auto& [id, name] : models) {
    int64_t largest = 0;
    for (const fsdp::plan::Unit& unit : parts_of(*models::config_of_size(name)).units)
      largest = std::max(largest, numel_of(unit));
    const double expected = (16 * numel_of_model(name) + 2 * 2 * static_cast<double>(largest)) / kGB;
    expect_ours(id, expected, 0.001 * expected);
  }
}

TEST(Textbook, TwoOfTheFourFitADevice) {
  for (const char* prefix : {"bert-large", "gpt2", "turing-nlg", "gpt3"}) {
    const TextbookRow row = textbook_row(fmt::format("{}-device", prefix));
    EXPECT_EQ(row.recomputed, row.published) << prefix;
    EXPECT_EQ(row.ours, row.published) << prefix;
    EXPECT_EQ(row.why.starts_with("The state alone fills"), row.published == kNoDevice) << prefix;
  }
  EXPECT_EQ(textbook_row("bert-large-device").published, 16);
  EXPECT_EQ(textbook_row("gpt2-device").published, 32);
  EXPECT_EQ(textbook_row("gpt3-device").published, kNoDevice);
}

// The ratio of the numbers of parameters; ours counts 0.336 B for BERT-Large, and attention.
TEST(Textbook, Gpt3ComputesHundredsOfTimesAsMuchAsBert) {
  expect_published("computation", 0.5);
  const double parameters = numel_of_model("gpt3-175b") / numel_of_model("bert-large");
  EXPECT_NEAR(parameters, 519.3, 0.1);
  const double gpt3 = 6 * (numel_of_model("gpt3-175b") - 2048 * 12'288) + 12.0 * 96 * 12'288 * 2048;
  const double bert = 6 * (numel_of_model("bert-large") - (512 + 2) * 1024) + 12.0 * 24 * 1024 * 512;
  expect_ours("computation", gpt3 / bert, 1e-9);
  EXPECT_THAT(textbook_row("computation").why, HasSubstr("it is 7 % of BERT-Large's"));
}

TEST(Textbook, ZeroDividesTheStateInThreeStages) {
  expect_published("zero-baseline", 0);
  expect_published("zero-stage-1", 0.05);
  expect_published("zero-stage-2", 0.05);
  expect_published("zero-stage-3", 0.005);
  const double numel = 7.5, unit = numel / 40, divided = 18 * numel / 64;
  const double buffers = 3 * 4 * unit;  // of gradients
  expect_ours("zero-baseline", 18 * numel + buffers, 0.001);
  for (const char* id : {"zero-stage-1", "zero-stage-2"})
    expect_ours(id, 2 * numel + buffers + divided, 0.001);               // full parameters
  expect_ours("zero-stage-3", 2 * 2 * unit + buffers + divided, 0.001);  // two of them
}

// Sums take the place of gradients on one host alone. Running sums of 7 hosts are a 64th of the gradients each.
TEST(Textbook, ZerosMemoryOnHostsHasWholeGradientsOnce) {
  for (const char* id : {"zero-baseline-one-host", "zero-baseline-hosts"}) expect_published(id, 0);
  expect_published("zero-stage-1-hosts", 0.05);
  const double numel = 7.5, buffers = 3 * 4 * numel / 40 * (1 + 7.0 / 64);
  expect_ours("zero-baseline-one-host", 16 * numel, 0.001);
  expect_ours("zero-baseline-hosts", 16 * numel + buffers, 0.001);
  // Of full units each of the host's 8 ranks holds a part, but for its own shard.
  expect_ours("zero-stage-1-hosts", 16 * numel / 64 + 4 * numel * (1.0 / 8 - 1.0 / 64) + buffers, 0.001);
}

TEST(Textbook, ZerosFactorsAreThoseOfManyRanks) {
  for (const char* id : {"zero-stage-1-factor", "zero-stage-2-factor", "zero-stage-3-factor"}) expect_published(id, 0);
  const double whole = textbook_row("zero-baseline").ours;
  for (const char* id : {"zero-stage-1", "zero-stage-2", "zero-stage-3"})
    EXPECT_NEAR(textbook_row(fmt::format("{}-factor", id)).ours, whole / textbook_row(id).ours, 1e-9);
  EXPECT_THAT(textbook_row("zero-stage-1-factor").why, HasSubstr("gives 3.82"));
  EXPECT_THAT(textbook_row("zero-stage-2-factor").why, HasSubstr("gives 7.21"));
  EXPECT_THAT(textbook_row("zero-stage-3-factor").why, HasSubstr("gives 64"));
}

// Each rank receives 63 / 64 of a tensor.
TEST(Textbook, VolumesAreTwoAndThreeParameters) {
  constexpr double kOthers = 63.0 / 64;
  expect_ours("volume-ddp", 2 * kOthers, 0.001);
  expect_ours("volume-stage-1", 2 * kOthers, 0.001);
  expect_ours("volume-stage-2", 2 * kOthers, 0.001);
  // Gathered in the forward: 32 layers, and what lies outside of them twice. In the backward: all but two units.
  std::vector<double> units;
  const models::ModelConfig model = *models::config_of_size("gpt3-6.7b");
  for (const fsdp::plan::Unit& unit : parts_of(model).units) units.push_back(static_cast<double>(numel_of(unit)));
  const double numel = numel_of_model("gpt3-6.7b"), gathered = 2 * units[0] + 32 * units[1] + 31 * units[1];
  expect_ours("volume-stage-3", kOthers * (gathered + numel) / numel, 0.001);
}

// A ring enters each host once, for one of its 8 ranks.
TEST(Textbook, TrafficAcrossHostsIsThatOfOtherHosts) {
  EXPECT_NEAR(textbook_row("hosts-replication").recomputed, 2 * 63.0 / 64, 1e-12);
  EXPECT_NEAR(textbook_row("hosts-full-shard").recomputed, 3 * 63.0 / 64, 1e-12);
  EXPECT_NEAR(textbook_row("hosts-hybrid").recomputed, 2 * 63.0 / 64 / 8, 1e-12);
  // In a ring whose 8 ranks of a host are neighbours an eighth crosses hosts.
  expect_ours("hosts-replication", 2 * 63.0 / 64 / 8, 0.001);
  expect_ours("hosts-full-shard", textbook_row("volume-stage-3").ours / 8, 0.001);
  expect_ours("hosts-hybrid", 63.0 / 64 / 8 + 7.0 / 64, 0.001);  // the sum, and the replicas' slices
  EXPECT_THAT(textbook_row("hosts-hybrid").why,
              HasSubstr("Hosts of CPUs send sums, and receive 0.219 M."));  // 7 + 7 of 64
}

TEST(Textbook, YaFsdpsFormulaHasOneBufferLess) {
  expect_published("yafsdp-divided", 0);
  expect_published("yafsdp-layer", 0);
  expect_ours("yafsdp-divided", 18, 0.01);
  expect_ours("yafsdp-layer", 2 * 2 + 3 * 4, 0.01);
  const double layer = 855'654'400, numel = 68'976'648'192;
  EXPECT_NEAR(textbook_row("yafsdp-together").recomputed, (18 * numel / 256 + 12 * layer) / kGB, 1e-9);
  expect_ours("yafsdp-together", (18 * numel / 256 + 16 * layer) / kGB, 0.02);
}

TEST(Textbook, LlmcPrintsItsMemory) {
  for (const char* id : {"llmc-parameters", "llmc-gradients", "llmc-activations", "llmc-first-moment",
                         "llmc-second-moment", "llmc-master"}) {
    const TextbookRow row = textbook_row(id);
    EXPECT_EQ(std::floor(row.recomputed), row.published) << id;
  }
  const double mib = numel_of_model("gpt2-xl") / kMiB;
  expect_ours("llmc-parameters", 2 * mib, 2);
  const double root = (50'257 + 1024 + 2) * 1600 / kMiB;  // embeddings and the last norm
  expect_ours("llmc-gradients", 4 * mib / 8 + 3 * 4 * root, 1);
  // 16 tensors per layer in bf16, and at most 1 GiB of logits.
  expect_ours("llmc-activations", (48 * 16.0 + 1) * 16 * kGpt2Wide / 2 / kMiB, 1100);
  expect_ours("llmc-first-moment", 4 * mib / 8, 1);
  expect_ours("llmc-second-moment", 4 * mib / 8, 1);
  expect_ours("llmc-master", (4 + 2) * mib / 8, 2);
}

// 2 x 28672 + 3 x 8192 + 2 x 1024 features are the results of a layer's seven matrices.
TEST(Textbook, Llamas110GigabytesAreTheResultsOfItsMatrices) {
  expect_published("llama-activations", 0.1);
  expect_published("llama-recomputed", 0.4);
  EXPECT_EQ(textbook_row("llama-activations").recomputed, 80 * 83'968.0 * 2 * 8192 / kGB);
  EXPECT_EQ(textbook_row("llama-recomputed").recomputed, 80 * 8192.0 * 2 * 4096 / kGB);
  // Inputs of two norms and of seven matrices (three share one, two another), queries, keys and values, the results of
  // attention as its kernel returns them, and the inputs of SiLU and of the product with it.
  const double at_least = 7.0 * 8192 + 2 * 1024 + 4 * 28'672, wide = 80.0 * 2 * 8192;
  EXPECT_GT(textbook_row("llama-activations").ours, at_least * wide / kGB);
  EXPECT_LT(textbook_row("llama-activations").ours, 1.01 * at_least * wide / kGB);
  const double recomputed = 8192 + (at_least - 8192) / 80;  // inputs of all layers, and all else of one
  EXPECT_GT(textbook_row("llama-recomputed").ours, recomputed * wide / kGB);
  EXPECT_LT(textbook_row("llama-recomputed").ours, 1.01 * recomputed * wide / kGB);
}

TEST(Textbook, ATreeTakesThreeRounds) {
  expect_published("one-by-one", 0);
  expect_ours("one-by-one", 35, 0);
  expect_published("by-tree", 0);
  expect_ours("by-tree", 15, 0);
}

TEST(Textbook, SamplesAreDealtEvenly) {
  expect_published("samples", 0);
  expect_ours("samples", 341, 0);
}

TEST(TextbookText, FitsATerminal) {
  std::istringstream lines(textbook_text(shared_textbook()));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_GT(count, 100);
}

TEST(TextbookText, HasFiguresBesideEachOther) {
  const std::string text = textbook_text(shared_textbook());
  EXPECT_THAT(text,
              HasSubstr("\n  Stage 3\n    ZeRO       1.88 GB      16 P / N = 1.875\n    ours       5.11 GB      "));
  EXPECT_THAT(text, HasSubstr("    courses    none         smallest of at least 2800 GB = none\n"));
  EXPECT_THAT(text,
              HasSubstr("    llm.c    40,409 MiB     tensors of train_gpt2.cu = 40,409\n    ours     39,344 MiB "));
}

TEST(TextbookText, NumbersHaveTheDigitsOfTheirSource) {
  EXPECT_EQ(figure_text(0.006, 4), "0.006");
  EXPECT_EQ(figure_text(56.25, 4), "56.25");
  EXPECT_EQ(figure_text(1.875, 3), "1.88");
  EXPECT_EQ(figure_text(120, 3), "120");
  EXPECT_EQ(figure_text(2800, 4), "2,800");
  EXPECT_EQ(figure_text(40'409.2, 3), "40,409");
  EXPECT_EQ(figure_text(kNoDevice, 3), "none");
}

TEST(TextbookJson, HasAllRows) {
  const auto json = fsdp::files::parse_json(textbook_json(shared_textbook()), "textbook");
  size_t rows = 0;
  for (const auto& topic : json.at("topics")) {
    for (const auto& row : topic.at("rows")) {
      ++rows;
      EXPECT_EQ(row.size(), 9u);
      if (row.at("id") == "zero-stage-3") EXPECT_EQ(row.at("published"), 1.88);
      if (row.at("id") == "gpt3-device") EXPECT_TRUE(row.at("published").is_null());
    }
  }
  size_t expected = 0;
  for (const TextbookTopic& topic : shared_textbook()) expected += topic.rows.size();
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace trainer
