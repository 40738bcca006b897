// Activations from those of a tiny model: the arithmetic alone; planned_activation_memory_test.cpp compares it with
// runs.
#include "planning/planned_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "apps/planning/sample_activations.h"
#include "models/model_sizes.h"

namespace trainer {
namespace {

using testing::IsEmpty;

RunOptions run_of(const char* model) {
  RunOptions options;
  options.model = *models::config_of_size(model);
  return options;
}

TEST(PlannedActivations, AreOfModelsThatCanBeMade) {
  for (const std::string& size : models::size_names()) {
    SCOPED_TRACE(size);
    RunOptions options = run_of(size.c_str());
    options.model.lora = models::Lora{.rank = 4, .targets = {"c_attn"}};
    const RunOptions tiny = with_prime_sizes(options);
    EXPECT_THAT(models::problems(tiny.model), IsEmpty());
    EXPECT_EQ(tiny.model.layers, options.model.layers);
    EXPECT_EQ(tiny.model.heads == tiny.model.key_value_heads_or_default(),
              options.model.heads == options.model.key_value_heads_or_default());
    const ActivationSizes sizes = activation_sizes(tiny);
    std::multiset<int64_t> primes(sizes.begin(), sizes.end());
    primes.erase(1);
    EXPECT_EQ(std::set<int64_t>(primes.begin(), primes.end()).size(), primes.size());  // told apart
  }
}

std::vector<int64_t> bytes_of(const RunOptions& run) {
  const models::ModelConfig& model = run.model;
  const int64_t tokens = run.batch * model.context, queries = model.heads * model.head_width_or_default();
  return {4 * tokens * model.width, 3 * 4 * tokens * queries,
          4 * run.batch * model.heads * model.context * model.context,
          2 * model.context * model.head_width_or_default() / 2, 4};
}

double sum_of(const std::vector<int64_t>& storages) {
  double sum = 0;
  for (const int64_t bytes : storages) sum += static_cast<double>(bytes);
  return sum;
}

TEST(PlannedActivations, GrowWithTheSizesInThem) {
  RunOptions options = run_of("llama-1b");
  options.batch = 3;
  options.model.context = 100;
  EXPECT_EQ(PlannedActivations().bytes(options), 0);
  const PlannedActivations activations(
      [](const RunOptions& tiny) { return std::vector<std::vector<int64_t>>{bytes_of(tiny)}; });
  EXPECT_EQ(activations.bytes(options), sum_of(bytes_of(options)));
  options.batch = 1;
  EXPECT_EQ(activations.bytes(options), sum_of(bytes_of(options)));
}

// The larger one of a tiny model may be the smaller one of the run.
TEST(PlannedActivations, AreThoseOfTheMomentThatIsLargest) {
  RunOptions options = run_of("gpt2");
  options.batch = 2;
  const PlannedActivations activations([](const RunOptions& tiny) {
    return std::vector<std::vector<int64_t>>{{4 * tiny.batch, 4 * tiny.batch, 1000}, {4 * tiny.model.vocabulary}};
  });
  EXPECT_EQ(activations.bytes(options), 4 * options.model.vocabulary);
  options.model.vocabulary = 3;
  EXPECT_EQ(activations.bytes(options), 2 * 4 * 2 + 1000);
}

TEST(PlannedActivations, HaveTheLogitsThatAreKept) {
  RunOptions options = run_of("gpt2");
  const auto run = [](const RunOptions& tiny) {
    const int64_t tokens = tiny.batch * tiny.model.context;
    return std::vector<std::vector<int64_t>>{{4 * tokens * tiny.model.vocabulary, 4 * tokens}};
  };
  const PlannedActivations all(run), some(run, [](const RunOptions&of) { return of.batch; });
  for (const int64_t batch : {1, 3}) {
    options.batch = batch;
    const int64_t tokens = batch * options.model.context;
    EXPECT_EQ(all.bytes(options), 4 * tokens * (options.model.vocabulary + 1));
    EXPECT_EQ(some.bytes(options), batch + 4 * tokens);
  }
}

TEST(PlannedActivations, AreFoundOutOnceForEachKindOfRun) {
  RunOptions options = run_of("gpt2");
  int runs = 0;
  const PlannedActivations activations([&](const RunOptions&) {
    ++runs;
    return std::vector<std::vector<int64_t>>{{4}};
  });
  const PlannedActivations copy = activations;
  for (const int64_t batch : {8, 4, 1}) {
    options.batch = batch;
    activations.bytes(options);
    copy.bytes(options);
  }
  EXPECT_EQ(runs, 2);
  options.param_dtype = "bf16";
  copy.bytes(options);
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace trainer
