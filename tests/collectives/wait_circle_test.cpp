// Circles of waits: which waits form one, when it is certain, and its text.
#include "collectives/wait_circle.h"

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "collectives/world_calls.h"

namespace fsdp::collectives {
namespace {

constexpr uint64_t kMain = 1, kOther = 2;  // threads

using Ranks = std::map<int, RankWaits>;

ThreadWait wait_for(uint64_t group, std::vector<int> awaited, uint64_t thread = kMain) {
  return {.thread = thread, .number = 1, .group = group, .doing = "enters a barrier", .awaited = std::move(awaited)};
}

ThreadWait call_of(uint64_t world, uint64_t call, std::vector<int> ranks) {
  ThreadWait wait = wait_for(world, std::move(ranks));
  wait.call = call;
  return wait;
}

std::vector<int> circle_of(const Ranks& ranks, int rank) {
  const WaitCircle circle = find_circle(rank, ranks.at(rank).waits.at(0), [&](int asked) {
    const auto found = ranks.find(asked);
    return found == ranks.end() ? nullptr : &found->second;
  });
  std::vector<int> numbers;
  for (const WaitInCircle& one : circle) numbers.push_back(one.rank);
  return numbers;
}

// The axes of a grid of two by two: groups 10 and 11 along data, 20 and 21 along tensor.
Ranks four_in_a_circle() {
  return {{0, {{wait_for(10, {2})}, {{10, 0, kMain}, {20, 0, kMain}}}},
          {1, {{wait_for(20, {0})}, {{11, 0, kMain}, {20, 0, kMain}}}},
          {2, {{wait_for(21, {3})}, {{10, 0, kMain}, {21, 0, kMain}}}},
          {3, {{wait_for(11, {1})}, {{11, 0, kMain}, {21, 0, kMain}}}}};
}

TEST(WaitCircle, OverTwoAxesIsFoundByEachOfItsRanks) {
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(circle_of(four_in_a_circle(), rank), (std::vector<int>{0, 2, 3, 1})) << rank;
}

TEST(WaitCircle, OfCallsIsFoundByTheirNumbers) {
  Ranks ranks{{0, {{call_of(10, 3, {0, 1, 2})}, {{10, 3, kMain}, {20, 6, kMain}}}},
              {1, {{call_of(20, 7, {0, 1})}, {{10, 2, kMain}, {20, 7, kMain}}}},
              {2, {{call_of(10, 3, {0, 1, 2})}, {{10, 3, kMain}}}}};
  EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(circle_of(ranks, 2), (std::vector<int>())) << "rank 2 waits for a circle and is not part of it";
  ranks[1].groups[0].calls = 3;
  EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>())) << "rank 1 has begun the call that rank 0 is in";
}

TEST(WaitCircle, IsNoneIfOneOfThemComputes) {
  for (int rank = 1; rank < 4; ++rank) {
    Ranks ranks = four_in_a_circle();
    ranks[rank].waits.clear();
    EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>())) << rank;
    ranks.erase(rank);
    EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>())) << rank;
  }
}

TEST(WaitCircle, IsNoneIfAnotherThreadUsesTheGroup) {
  Ranks ranks = four_in_a_circle();
  ranks[2].groups[0].thread = kOther;
  EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>()));
  ranks[2].waits.push_back(wait_for(21, {3}, kOther));
  EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>{0, 2, 3, 1}));
}

TEST(WaitCircle, IsNoneOfRanksOfOneGroupAlone) {
  const Ranks ranks{{0, {{wait_for(10, {1})}, {{10, 0, kMain}}}}, {1, {{wait_for(10, {0})}, {{10, 0, kMain}}}}};
  EXPECT_EQ(circle_of(ranks, 0), (std::vector<int>()));
}

TEST(WaitCircle, HasATextWithEachRankAndTheRemedyLast) {
  WaitCircle circle{{0, wait_for(10, {1})}, {1, wait_for(20, {0})}};
  circle[1].wait.doing = "enters an all_reduce along data";
  EXPECT_EQ(
      circle_text(circle),
      "rank 0 enters a barrier and waits for rank 1, rank 1 enters an all_reduce along data and waits for rank 0. "
      "This is a circle, so none of these ranks can continue. Make the calls of different worlds, axes and models "
      "in one order on all ranks.");
}

WaitCircle circle_with_looks(uint64_t first, uint64_t second, uint64_t number = 1) {
  WaitCircle circle{{0, wait_for(10, {1})}, {1, wait_for(20, {0})}};
  circle[0].wait.looks = first;
  circle[1].wait.looks = second;
  circle[1].wait.number = number;
  return circle;
}

TEST(CircleWatch, IsCertainOfWaitsThatAllGoOn) {
  CircleWatch watch;
  for (int look = 1; look < CircleWatch::kReadings; ++look)
    EXPECT_FALSE(watch.is_certain(circle_with_looks(look, 10 * look)));
  EXPECT_TRUE(watch.is_certain(circle_with_looks(100, 100)));
}

// It may have gone on since.
TEST(CircleWatch, IsNotCertainOfAWaitThatIsNotSeenAgain) {
  CircleWatch watch;
  for (int look = 1; look < 100; ++look) EXPECT_FALSE(watch.is_certain(circle_with_looks(look, 7)));
}

TEST(CircleWatch, BeginsAnewIfAWaitWasOver) {
  CircleWatch watch;
  for (int look = 1; look < 100; ++look) {
    EXPECT_FALSE(watch.is_certain(circle_with_looks(look, look, /*number=*/1 + look / 3)));
    if (look % 4 == 0) EXPECT_FALSE(watch.is_certain({}));
  }
}

TEST(RankWaits, AreReadAsTheyWereWritten) {
  RankWaits waits = four_in_a_circle()[2];
  waits.waits[0] = {~uint64_t{0}, 7, 21, "calls World::barrier", 3, {1, 2, 30}, 9};
  waits.circle = ~uint64_t{0};
  const std::optional<RankWaits> read = decode_waits(encode_waits(waits));
  ASSERT_TRUE(read);
  EXPECT_EQ(encode_waits(*read), encode_waits(waits));
  EXPECT_EQ(read->waits[0].awaited, (std::vector<int>{1, 2, 30}));
  EXPECT_EQ(read->waits[0].doing, "calls World::barrier");
  EXPECT_EQ(read->groups.size(), 2);
}

TEST(RankWaits, ThatWereCutOffAreNone) {
  const std::string text = encode_waits(four_in_a_circle()[2]);
  for (size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(decode_waits(text.substr(0, length))) << length;
  EXPECT_TRUE(decode_waits(text));
  EXPECT_FALSE(decode_waits(text + text));
}

TEST(WorldCalls, ShowTheWaitOfEachThread) {
  WorldCalls calls;
  calls.open({.group = 7, .ranks = {0, 3}, .where = "along data"});
  EXPECT_TRUE(calls.waits().waits.empty());
  calls.begin(7, "calls World::barrier");
  EXPECT_TRUE(calls.waits().waits.empty()) << "it is no long wait";
  {
    WorldCalls::Wait wait(calls, 7, "enters a barrier");
    wait.look({3});
    const RankWaits shown = calls.waits();
    ASSERT_EQ(shown.waits.size(), 1);
    EXPECT_EQ(shown.waits[0].doing, "calls World::barrier along data");
    EXPECT_EQ(shown.waits[0].awaited, std::vector<int>{3});
    EXPECT_EQ(shown.groups.at(0).thread, shown.waits[0].thread);
    calls.conclude(shown.waits[0].number, {"a circle", true});
    EXPECT_EQ(calls.circle_of(std::this_thread::get_id())->text, "a circle");
  }
  EXPECT_FALSE(calls.circle_of(std::this_thread::get_id()));
}

// The program waits for a call that a thread of the library runs.
TEST(WorldCalls, ShowTheProgramInTheWaitOfTheLibrarysThread) {
  WorldCalls calls;
  calls.open({.group = 7, .ranks = {0, 3}, .where = "beside the program along data"});
  const uint64_t first = calls.give(7), second = calls.give(7);
  EXPECT_EQ(second, first + 1);
  std::promise<void> waits, is_over;
  std::thread library([&] {
    calls.use(7);
    calls.run_given(7, first, "calls World::all_reduce_async_");
    {
      WorldCalls::Wait wait(calls, 7, "enters an all_reduce");
      wait.look({3});
      waits.set_value();
      is_over.get_future().wait();
    }
    calls.end();
  });
  waits.get_future().wait();
  EXPECT_EQ(calls.waits().waits.size(), 1);
  {
    const WorldCalls::WaitForThread waiting(calls, library.get_id());
    const RankWaits shown = calls.waits();
    ASSERT_EQ(shown.waits.size(), 2);
    const ThreadWait &of_library = shown.waits[0], &of_program = shown.waits[1];
    EXPECT_EQ(of_program.doing, "calls World::all_reduce_async_ beside the program along data");
    EXPECT_EQ(of_program.awaited, std::vector<int>{3});
    EXPECT_EQ(of_program.call, first);
    EXPECT_EQ(shown.groups.at(0).thread, of_program.thread) << "the program gives the calls";
    EXPECT_EQ(shown.groups.at(0).calls, second);
    EXPECT_NE(of_program.thread, of_library.thread);
    EXPECT_NE(of_program.number, of_library.number);
    calls.conclude(of_program.number, {"a circle", true});
    EXPECT_EQ(calls.circle_of(library.get_id())->text, "a circle") << "the library's thread ends the call";
  }
  EXPECT_EQ(calls.waits().waits.size(), 1);
  is_over.set_value();
  library.join();
  EXPECT_TRUE(calls.waits().waits.empty());
}

TEST(WorldCalls, ShowALongWaitInAModelWithTheNumberOfItsOperation) {
  WorldCalls calls;
  calls.open({.group = 8, .ranks = {0, 3}, .where = "of a model along data", .of_model = true});
  calls.begin_operation(8);
  const uint64_t operation = calls.begin_operation(8);
  calls.show(std::this_thread::get_id(), 8, operation, "gathers unit root", {0, 3});
  const RankWaits shown = calls.waits();
  ASSERT_EQ(shown.waits.size(), 1);
  EXPECT_EQ(shown.waits[0].doing, "gathers unit root of a model along data");
  EXPECT_TRUE(has_come(shown.waits[0], shown));
  WorldCalls behind;
  behind.open({.group = 8, .ranks = {0, 3}});
  behind.begin_operation(8);
  EXPECT_FALSE(has_come(shown.waits[0], behind.waits()));
  calls.hide(std::this_thread::get_id());
  EXPECT_TRUE(calls.waits().waits.empty());
}

}  // namespace
}  // namespace fsdp::collectives
