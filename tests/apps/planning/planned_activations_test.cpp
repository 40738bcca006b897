// Activations from those of a tiny model: the arithmetic alone; planned_memory_test.cpp compares it with runs.
#include "planning/planned_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "apps/planning/sample_activations.h"
#include "models/model_sizes.h"

namespace trainer {
namespace {

using testing::IsEmpty;

Options run_of(const char* model) {
  Options options;
  options.model = *models::config_of_size(model);
  return options;
}

TEST(PlannedActivations, AreOfModelsThatCanBeMade) {
  for (const std::string& size : models::size_names()) {
    SCOPED_TRACE(size);
    Options options = run_of(size.c_str());
    options.model.lora = models::Lora{.rank = 4, .targets = {"c_attn"}};
    const Options tiny = with_prime_sizes(options);
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

TEST(PlannedActivations, GrowWithTheSizesInThem) {
  Options options = run_of("llama-1b");
  options.batch = 3;
  options.model.context = 100;
  const Options tiny = with_prime_sizes(options);
  const auto bytes_of = [](const Options& run) {
    const models::ModelConfig& model = run.model;
    const int64_t tokens = run.batch * model.context, queries = model.heads * model.head_width_or_default();
    return std::vector<int64_t>{4 * tokens * model.width, 3 * 4 * tokens * queries,
                                4 * run.batch * model.heads * model.context * model.context,
                                2 * model.context * model.head_width_or_default() / 2, 4};
  };
  PlannedActivations activations;
  EXPECT_EQ(activations.bytes(options), 0);
  activations.add(options, bytes_of(tiny));
  double expected = 0;
  for (const int64_t bytes : bytes_of(options)) expected += static_cast<double>(bytes);
  EXPECT_EQ(activations.bytes(options), expected);
  activations.add(options, bytes_of(tiny), -1);
  EXPECT_EQ(activations.bytes(options), 0);
}

TEST(PlannedActivations, AreKnownByDtypeAndForOneSequence) {
  Options options = run_of("gpt2");
  PlannedActivations activations;
  activations.add(options, {4});
  EXPECT_TRUE(activations.knows(options));
  options.batch = 2;
  EXPECT_TRUE(activations.knows(options));
  options.batch = 1;
  EXPECT_FALSE(activations.knows(options));
  options.batch = 8;
  options.param_dtype = "bf16";
  EXPECT_FALSE(activations.knows(options));
}

}  // namespace
}  // namespace trainer
