#include "collectives/device/work_watch.h"

#include <gmock/gmock.h>

#include <memory>

namespace fsdp::collectives::device {
namespace {

// `tensor` stands for those that work keeps.
struct WatchedWork final : c10d::Work {
  explicit WatchedWork(bool over) : is_over(over) {}
  bool isCompleted() override { return is_over; }
  std::shared_ptr<int> tensor = std::make_shared<int>();
  bool is_over;
};

std::weak_ptr<int> tensor_of_work_that_begins(WorkWatch& watch, bool over) {
  const auto work = c10::make_intrusive<WatchedWork>(over);
  watch.begins("work", work);
  return work->tensor;
}

TEST(WorkWatch, KeepsNothingOfWorkThatIsOver) {
  WorkWatch watch(std::chrono::minutes(10), [] {});
  const auto over = tensor_of_work_that_begins(watch, true);
  EXPECT_FALSE(over.expired());
  const auto under_way = tensor_of_work_that_begins(watch, false);
  EXPECT_TRUE(over.expired());
  tensor_of_work_that_begins(watch, true);
  EXPECT_FALSE(under_way.expired());
}

}  // namespace
}  // namespace fsdp::collectives::device
