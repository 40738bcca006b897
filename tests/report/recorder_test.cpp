#include "report/recorder.h"

#include <gtest/gtest.h>

namespace fsdp::report {
namespace {

TEST(Recorder, CountsEveryWaitAndShowsItWhileTraced) {
  Recorder recorder(3);
  EXPECT_EQ(recorder.waits(Activity::WaitGather, 1, [] { return 7; }), 7);
  recorder.begin_trace();
  recorder.waits(Activity::WaitGather, 1, [] {});
  recorder.waits(Activity::WaitReaders, kNoUnit, [] {});
  EXPECT_ANY_THROW(recorder.waits(Activity::WaitReduce, 2, [] { throw 1; }));
  EXPECT_EQ(recorder.waited(Activity::WaitGather, 1).count, 2);
  EXPECT_EQ(recorder.waited(Activity::WaitGather, 2).count, 0);
  EXPECT_EQ(recorder.waited(Activity::WaitReduce, 2).count, 1);
  EXPECT_EQ(recorder.waited(Activity::WaitReaders).count, 1);
  EXPECT_EQ(recorder.end_trace().spans.size(), 3);
  EXPECT_FALSE(recorder.traced());
}

}  // namespace
}  // namespace fsdp::report
