// A file for seven friends, and samples for three devices.
#include <algorithm>

#include "planning/textbook_topics.h"

namespace trainer {

namespace {

constexpr int kFriends = 7, kAll = kFriends + 1;
constexpr double kMegabytes = 5, kRate = 1;  // megabytes per second

// Rounds in which each rank with the values passes them to one without.
int rounds() {
  int rounds = 0;
  for (int have = 1; have < kAll; have *= 2) ++rounds;
  return rounds;
}

// The time at which the last rank below `rank` has the values, by the tree of World::broadcast_: `rank` has them at
// `now` and sends to its children one after the other. Its first child is `step` ranks on, and each further one twice
// as far.
double last_arrival(int rank, int step, double now) {
  double sent = now, last = now;
  for (; rank + step < kAll; step *= 2) {
    sent += kMegabytes / kRate;
    last = std::max(last, last_arrival(rank + step, 2 * step, sent));
  }
  return last;
}

// The samples of an epoch that each rank sees, by the rule of fsdp::Sampler: those of place p go to rank p % ranks.
std::vector<int64_t> samples_of_ranks(int64_t samples, int64_t ranks) {
  std::vector<int64_t> seen(static_cast<size_t>(ranks), 0);
  for (int64_t place = 0; place < samples; ++place) ++seen[static_cast<size_t>(place % ranks)];
  return seen;
}

}  // namespace

TextbookTopic one_to_many() {
  return {
      .title = "5 MB for 7 friends at 1 MB/s",
      .setting = "Each sends at most 1 MB/s.",
      .rows = {
          {.id = "one-by-one",
           .what = "One by one",
           .source = "courses",
           .formula = "7 x 5 MB / 1 MB/s",
           .unit = "s",
           .published = 35,
           .recomputed = kFriends * kMegabytes / kRate,
           .ours = kFriends * kMegabytes / kRate,
           .why = "World::send to each rank takes as long."},
          {.id = "by-tree",
           .what = "By a tree",
           .source = "courses",
           .formula = "3 rounds x 5 MB / 1 MB/s",
           .unit = "s",
           .published = 15,
           .recomputed = rounds() * kMegabytes / kRate,
           .ours = last_arrival(0, 1, 0),
           .why = "World::broadcast_ has this tree. A rank sends to one child after the other, the one with most ranks "
                  "below it first."}}};
}

TextbookTopic even_samples() {
  const std::vector<int64_t> seen = samples_of_ranks(1023, 3);
  const auto [least, most] = std::ranges::minmax(seen);
  return {.title = "1,023 samples over 3 devices",
          .setting = "An epoch with one sample per micro-batch.",
          .rows = {{.id = "samples",
                    .what = "Samples of each device",
                    .source = "courses",
                    .formula = "1023 / 3",
                    .unit = "each",
                    .published = 341,
                    .recomputed = 1023.0 / 3,
                    .ours = static_cast<double>(most),
                    .why = least == most ? "Equal on all ranks: fsdp::Sampler deals the samples one by one."
                                         : "fsdp::Sampler deals the samples one by one."}}};
}

}  // namespace trainer
