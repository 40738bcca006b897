// The textbook's samples of each rank are those that fsdp::Sampler deals.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <set>

#include "planning/textbook.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

double samples_in_textbook() {
  for (const TextbookTopic& topic : textbook()) {
    for (const TextbookRow& row : topic.rows) {
      if (row.id == "samples") return row.ours;
    }
  }
  return 0;
}

TEST(TextbookSamples, AreDealtSoByTheSampler) {
  fsdp::testing::run_ranks(3, [](fsdp::World& world) {
    fsdp::Sampler sampler(1023, world);
    std::set<int64_t> seen;
    int64_t calls = 0, sum = 0;
    for (; sampler.epoch() == 0; ++calls) {
      const int64_t number = sampler.next().front();
      seen.insert(number);
      sum += number;
    }
    EXPECT_EQ(static_cast<double>(calls), samples_in_textbook());
    EXPECT_EQ(static_cast<double>(seen.size()), samples_in_textbook());
    torch::Tensor of_all = torch::tensor({sum, calls}, torch::kLong);
    world.all_reduce_(of_all);
    EXPECT_EQ(of_all[0].item<int64_t>(), 1022 * 1023 / 2);  // each sample once
    EXPECT_EQ(of_all[1].item<int64_t>(), 1023);
  });
}

}  // namespace
}  // namespace trainer
