#include "parallel/for_parts.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/message_of.h"
#include "support/threads.h"

namespace fsdp::parallel {
namespace {

using fsdp::testing::Threads;
using ::testing::ElementsAre;
using ::testing::Pair;

struct Found {
  std::vector<std::pair<int64_t, int64_t>> parts;  // in their order
  std::set<std::thread::id> threads;
};

Found parts_of(int64_t count, int64_t least) {
  Found found;
  std::mutex mutex;
  for_parts(count, least, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    found.parts.emplace_back(begin, end);
    found.threads.insert(std::this_thread::get_id());
  });
  std::ranges::sort(found.parts);
  return found;
}

TEST(ForParts, HasOneForEachThread) {
  const Threads three(3);
  const Found found = parts_of(11, 1);
  EXPECT_THAT(found.parts, ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 11)));
  EXPECT_EQ(found.threads.size(), 3);
}

TEST(ForParts, HasFewerWhereTheyWouldBeSmall) {
  const Threads four(4);
  EXPECT_THAT(parts_of(11, 4).parts, ElementsAre(Pair(0, 6), Pair(6, 11)));
  EXPECT_THAT(parts_of(7, 4).parts, ElementsAre(Pair(0, 7)));
  EXPECT_THAT(parts_of(2, 1).parts, ElementsAre(Pair(0, 1), Pair(1, 2)));
  EXPECT_THAT(parts_of(0, 1).parts, ElementsAre());
}

TEST(ForParts, IsAPlainCallOfOneThread) {
  const Threads one(1);
  const Found found = parts_of(1000, 1);
  EXPECT_THAT(found.parts, ElementsAre(Pair(0, 1000)));
  EXPECT_THAT(found.threads, ElementsAre(std::this_thread::get_id()));
}

TEST(ForParts, StaysOnItsThreadWithinAnotherLoop) {
  const Threads two(2);
  std::mutex mutex;
  std::vector<size_t> threads;
  for_parts(2, 1, [&](int64_t, int64_t) {
    const size_t inner = parts_of(100, 1).threads.size();
    const std::lock_guard lock(mutex);
    threads.push_back(inner);
  });
  EXPECT_THAT(threads, ElementsAre(1, 1));
}

TEST(ForParts, PassesOnWhatAPartThrows) {
  const Threads two(2);
  const auto throws_in_the_second = [](int64_t begin, int64_t) {
    if (begin > 0) throw std::runtime_error("the second part");
  };
  EXPECT_EQ(fsdp::testing::message_of<std::runtime_error>([&] { for_parts(2, 1, throws_in_the_second); }),
            "the second part");
}

}  // namespace
}  // namespace fsdp::parallel
