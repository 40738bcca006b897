// The collectives of a device, with the CPU in its place and c10d's Gloo in NCCL's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/device/group.h"
#include "collectives/group_checks.h"
#include "support/device_over_gloo.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "world/state.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::make_device_group_over_gloo;
using testing::run_rank_processes;
using testing::run_ranks;
using testing::run_ranks_to_end;

class Device : public ::testing::TestWithParam<int> {};

TEST_P(Device, Gathers) {
  run_rank_processes(GetParam(), [](World& world) { collectives::check_gather(*make_device_group_over_gloo(world)); });
}
// Its sums are in the order of the process group, so the gradients are whole numbers, whose sums have no order.
TEST_P(Device, Reduces) {
  run_rank_processes(GetParam(), [](World& world) {
    collectives::check_reduce(*make_device_group_over_gloo(world), collectives::Values::Whole);
  });
}
TEST_P(Device, MovesWholeTensors) {
  run_rank_processes(GetParam(),
                     [](World& world) { collectives::check_whole_tensors(*make_device_group_over_gloo(world)); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Device, ::testing::Values(2, 4));

// Each rank begins its reductions in an order of its own. Rank 1 is late with the last: rank 0 waits for its first by
// then, which must not keep it from what rank 1 needs in order to go on.
TEST(DeviceGroup, RanksMayBeginReductionsInDifferentOrders) {
  run_rank_processes(2, [](World& world) {
    auto group = make_device_group_over_gloo(world);
    const layout::UnitLayout layout({100}, 2, 2);
    const layout::GradientLayout gradients(layout, {1});
    struct Reduced {
      std::unique_ptr<collectives::UnitCollectives> unit;
      collectives::GradientSum sum{torch::zeros({64}), {0}};
    };
    std::vector<Reduced> units(3);
    for (int id = 0; id < 3; ++id) units[id].unit = group->open_unit({id, fmt::format("unit{}", id), layout});
    for (int backward = 0; backward < 3; ++backward) {
      for (int i = 0; i < 3; ++i) {
        const int id = world.rank() == 0 ? i : (i + backward) % 3;
        torch::Tensor values = group->allocate(128 * 4).view(torch::kFloat32);
        values.fill_(static_cast<float>((id + 1) * (world.rank() + 1)));
        if (world.rank() == 1 && i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        units[id].unit->begin_reduce({&gradients, values, {1}, {}}, units[id].sum);
      }
      for (int i = 0; i < 3; ++i) units[world.rank() == 0 ? i : 2 - i].unit->wait_reduce();
      group->reductions_end(/*everywhere=*/true);
    }
    const int64_t own = world.rank() == 0 ? 64 : 36;
    for (int id = 0; id < 3; ++id) {
      const torch::Tensor expected = torch::full({own}, 3 * 3.0f * static_cast<float>(id + 1));
      EXPECT_TRUE(units[id].sum.values.narrow(0, 0, own).equal(expected)) << "unit " << id;
    }
  });
}

TEST(DeviceGroup, NamesARankThatDied) {
  auto result = run_ranks_to_end(
      2,
      [](World& world) {
        auto group = make_device_group_over_gloo(world);
        auto unit = group->open_unit({0, "blocks.4", layout::UnitLayout({1000}, 2, 2)});
        group->barrier();
        if (world.rank() == 1) raise(SIGKILL);
        group->barrier();
      },
      testing::patient_options());
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, HasSubstr("[fsdp rank 0/2] barrier: rank 1"));
}

// A group on the CPU in which the first call fails, and no later one.
class FailsOnce final : public collectives::Group, public collectives::TensorOperations {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::unique_ptr<collectives::UnitCollectives> open_unit(const collectives::GroupUnitSpec&) override { return {}; }
  collectives::TensorOperations& tensors() override { return *this; }
  void barrier() override { call(); }
  void all_reduce_(torch::Tensor&, ReduceOp) override { call(); }
  void broadcast_(torch::Tensor&, int) override { call(); }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string&) override {
    call();
    return {tensor, tensor};
  }
  bool exchange(const std::vector<torch::Tensor>&, const std::vector<torch::Tensor>&, const std::string&) override {
    call();
    return true;
  }
  std::unique_ptr<collectives::TensorMessage> send(const torch::Tensor&, int, int) override { return call(), nullptr; }
  std::unique_ptr<collectives::TensorMessage> receive_(torch::Tensor&, int, int) override { return call(), nullptr; }

 private:
  void call() {
    if (!std::exchange(failed_, true)) throw collectives::PeerLost("rank 1 is gone");
  }

  bool failed_ = false;
};

TEST(DeviceGroup, RepeatsAFailureOfWhatTravelsByTheHost) {
  torch::Tensor values = torch::zeros({4});  // on the CPU, and not on the group's device
  const std::vector<std::function<void(collectives::Group&)>> calls{
      [](collectives::Group& group) { group.barrier(); },
      [&](collectives::Group& group) { group.all_reduce_(values); },
      [&](collectives::Group& group) { group.broadcast_(values, 0); },
      [&](collectives::Group& group) { group.all_gather(values); },
      [&](collectives::Group& group) {
        group.tensors().exchange({values, values}, {values, values}, "exchanges");
      },
      [&](collectives::Group& group) { group.tensors().send(values, 1, 0); },
      [&](collectives::Group& group) { group.tensors().receive_(values, 1, 0); }};
  for (size_t first = 0; first < calls.size(); ++first) {
    const auto group = collectives::device::make_group(std::make_unique<FailsOnce>(), {}, torch::kMeta);
    EXPECT_THAT(testing::message_of<collectives::PeerLost>([&] { calls[first](*group); }), HasSubstr("rank 1 is gone"));
    for (size_t later = 0; later < calls.size(); ++later) {
      EXPECT_THAT(testing::message_of<collectives::PeerLost>([&] { calls[later](*group); }),
                  HasSubstr("rank 1 is gone"))
          << "call " << later << " after a failure of call " << first;
    }
  }
}

// A group on the CPU that says nothing.
class Silent final : public collectives::Group, public collectives::TensorOperations {
 public:
  int rank() const override { return 0; }
  int size() const override { return 4; }
  std::unique_ptr<collectives::UnitCollectives> open_unit(const collectives::GroupUnitSpec&) override { return {}; }
  collectives::TensorOperations& tensors() override { return *this; }
  void barrier() override {}
  void all_reduce_(torch::Tensor&, ReduceOp) override {}
  void broadcast_(torch::Tensor&, int) override {}
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string&) override {
    return std::vector<torch::Tensor>(size(), tensor);
  }
  bool exchange(const std::vector<torch::Tensor>&, const std::vector<torch::Tensor>&, const std::string&) override {
    return true;
  }
  std::unique_ptr<collectives::TensorMessage> send(const torch::Tensor&, int, int) override { return nullptr; }
  std::unique_ptr<collectives::TensorMessage> receive_(torch::Tensor&, int, int) override { return nullptr; }
};

// Process groups in which nothing moves. As on a device with streams, no wait makes the host wait.
struct StandIn {
  std::map<std::string, std::set<std::string>> calls;  // by channel
  bool hangs = false;
  std::atomic<bool> aborted = false;

  struct Work final : c10d::Work {
    explicit Work(const StandIn& of) : of_(of) {}
    bool isCompleted() override { return !of_.hangs || of_.aborted; }
    bool wait(std::chrono::milliseconds) override { return true; }
    const StandIn& of_;
  };
  struct Channel final : c10d::Backend {
    Channel(StandIn& of, std::string name, int rank, int size) : Backend(rank, size), of_(of), name_(std::move(name)) {}
    c10::intrusive_ptr<c10d::Work> called(const char* call) {
      of_.calls[name_].insert(call);
      return c10::make_intrusive<StandIn::Work>(of_);
    }
    const std::string getBackendName() const override { return "stand-in"; }
    c10::intrusive_ptr<c10d::Work> _allgather_base(torch::Tensor&, torch::Tensor&,
                                                   const c10d::AllgatherOptions&) override {
      return called("gather");
    }
    c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(torch::Tensor&, torch::Tensor&,
                                                        const c10d::ReduceScatterOptions&) override {
      return called("reduce");
    }
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<torch::Tensor>&, const c10d::AllreduceOptions&) override {
      return called("reduce");
    }
    void abort() override { of_.aborted = true; }
    StandIn& of_;
    std::string name_;
  };
  std::unique_ptr<collectives::Group> make_group(std::unique_ptr<collectives::Group> host,
                                                 std::chrono::milliseconds timeout) {
    const auto connect = [this](const std::string& name, int rank, int size) -> c10::intrusive_ptr<c10d::Backend> {
      return c10::make_intrusive<Channel>(*this, name, rank, size);
    };
    return collectives::device::make_group(std::move(host), connect, torch::kCPU, timeout);
  }
};

TEST(DeviceGroup, GathersAndReducesOverDifferentProcessGroups) {
  run_ranks(4, [](World& world) {
    StandIn stand_in;
    auto group = stand_in.make_group(world.state()->new_group(), std::chrono::minutes(1));
    std::vector<std::unique_ptr<collectives::UnitCollectives>> units;
    for (int shards : {1, 2, 4}) {
      const layout::UnitLayout layout({1000, 50}, 4, shards);
      units.push_back(group->open_unit({shards, "unit", layout}));
      units.back()->begin_gather(torch::zeros({layout.full_numel()}), collectives::Order::Common);
      units.back()->wait_gather();
      for (const std::vector<uint8_t>& wanted : {std::vector<uint8_t>{1, 1}, {0, 1}}) {
        const layout::GradientLayout gradients(layout, wanted);
        collectives::GradientSum sum{torch::zeros({gradients.shard_of(world.rank()).numel()}), {0, 0}};
        torch::Tensor values = group->allocate(gradients.full_numel() * 4).view(torch::kFloat32);
        units.back()->begin_reduce({&gradients, values, {wanted[0] ? uint8_t{1} : uint8_t{2}, 1}, {}}, sum);
        units.back()->wait_reduce();
        units.back()->wait_sum();
        group->reductions_end(/*everywhere=*/true);
      }
    }
    int gathering = 0, reducing = 0;
    for (const auto& [name, calls] : stand_in.calls) {
      if (name.starts_with("replicas")) continue;  // they exchange sums
      EXPECT_EQ(calls.size(), 1) << name;
      gathering += calls.contains("gather");
      reducing += calls.contains("reduce");
    }
    EXPECT_EQ(gathering, 2);
    EXPECT_EQ(reducing, 3);
  });
}

// No call waits for it, as on a device with streams.
TEST(DeviceGroup, GivesUpAndNamesWhatHangsOnTheDevice) {
  StandIn stand_in;
  stand_in.hangs = true;
  auto group = stand_in.make_group(std::make_unique<Silent>(), std::chrono::milliseconds(200));
  const layout::UnitLayout layout({1000}, 4, 4);
  auto unit = group->open_unit({0, "blocks.4", layout});
  unit->begin_gather(torch::zeros({layout.full_numel()}), collectives::Order::Common);
  unit->wait_gather();
  std::string message = "no error";
  while (message == "no error") message = testing::message_of<Error>([&] { group->barrier(); });
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("unit=blocks.4"), HasSubstr("gather: it was not over on the device"),
                                        HasSubstr("after 200 ms")));
  EXPECT_TRUE(stand_in.aborted);
  EXPECT_EQ(testing::message_of<Error>([&] { unit->begin_write(collectives::Readers::Wait); }), message);
}

TEST(DeviceGroup, NamesARankThatDiverged) {
  auto result = run_ranks_to_end(2, [](World& world) {
    auto group = make_device_group_over_gloo(world);
    torch::Tensor values = torch::zeros({4});
    world.rank() == 0 ? group->broadcast_(values, 0) : group->all_reduce_(values);
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("rank 0 enters a broadcast where rank 1 enters an all_reduce"));
}

}  // namespace
}  // namespace fsdp
