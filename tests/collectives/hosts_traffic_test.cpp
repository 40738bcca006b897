// The bytes that reductions send to other hosts, counted where they are handed to the network.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include <atomic>

#include "collectives/backends.h"
#include "collectives/hosts/unit.h"
#include "collectives/unit_exchange.h"
#include "collectives/wire.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp::collectives {
namespace {

using testing::Hosts;
using testing::run_on_hosts;

constexpr int64_t kNumel = 1'000'000;

class CountingTransport final : public Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> transport, int ranks_of_a_host, std::atomic<int64_t>& bytes)
      : transport_(std::move(transport)), ranks_of_a_host_(ranks_of_a_host), bytes_(bytes) {}

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override {
    if (peer / ranks_of_a_host_ != rank() / ranks_of_a_host_) bytes_ += static_cast<int64_t>(size);
    return transport_->send(bytes, size, peer, tag);
  }
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override {
    return transport_->receive(bytes, size, peer, tag);
  }

 private:
  std::unique_ptr<Transport> transport_;
  int ranks_of_a_host_;
  std::atomic<int64_t>& bytes_;
};

// One rank of a group of its own, whose messages between hosts are counted.
struct CountedRank {
  World& world;
  GroupSpec spec;
  std::atomic<int64_t> bytes = 0;
  std::shared_ptr<Wire> wire;

  CountedRank(World& of, const std::filesystem::path& directory)
      : world(of),
        spec{.store = c10::make_intrusive<c10d::FileStore>((directory / "store").string(), world.size()),
             .rank = world.rank(),
             .size = world.size(),
             .one_host = false,
             .ranks_of_a_host = world.local_size()} {
    auto transport = std::make_unique<CountingTransport>(make_gloo_transport(spec), spec.ranks_of_a_host, bytes);
    wire = std::make_shared<Wire>(std::move(transport), nullptr, std::vector<int>{});
  }

  // Of all ranks, in parts of what a ring over the hosts moves.
  double sent_as_a_ring() {
    torch::Tensor all = torch::tensor(static_cast<double>(bytes.exchange(0)), torch::kFloat64);
    world.all_reduce_(all);
    const int hosts = world.size() / world.local_size();
    return all.item<double>() / (static_cast<double>(hosts - 1) * kNumel * sizeof(float));
  }
};

// So many micro-batches, of one parameter; by micro-batch.
std::vector<double> traffic_of(CountedRank& rank, UnitCollectives& unit, const layout::GradientLayout& layout,
                               const torch::Tensor& gradients) {
  GradientSum sum{torch::zeros({layout.shard_of(rank.world.rank()).numel()}), {0}};
  const torch::Tensor staging = torch::empty({unit.staging_numel(layout)});
  std::vector<double> traffic;
  for (int batch = 0; batch < 3; ++batch) {
    unit.begin_reduce({&layout, gradients, {1}, staging}, sum);
    unit.wait_reduce();
    traffic.push_back(rank.sent_as_a_ring());
  }
  return traffic;
}

// Flags, and padding.
constexpr double kMoreTraffic = 0.001;

class HostsTraffic : public ::testing::TestWithParam<Hosts> {};

TEST_P(HostsTraffic, IsAtMostOneAndTwoPartsOfTheHostsOfARing) {
  const testing::ScratchDirectory scratch;
  run_on_hosts(GetParam(), [&](World& world) {
    CountedRank rank(world, scratch.path());
    auto context = std::make_shared<hosts::HostsContext>(rank.spec, rank.wire);
    const layout::UnitLayout layout({kNumel}, world.size(), world.size());
    const layout::GradientLayout gradient_layout(layout, {1});
    hosts::HostsUnit unit(context, {.name = "unit", .layout = layout});
    const torch::Tensor gradients =
        context->shared().allocate(gradient_layout.full_numel() * 4).view(torch::kFloat32).fill_(1);
    rank.bytes = 0;
    const double hosts = GetParam().hosts;
    const std::vector<double> traffic = traffic_of(rank, unit, gradient_layout, gradients);
    // The owners hold nothing yet.
    EXPECT_NEAR(traffic[0], 1 + 1 / hosts, kMoreTraffic);
    EXPECT_NEAR(traffic[1], 1 + 2 / hosts, kMoreTraffic);
    EXPECT_NEAR(traffic[2], 1 + 2 / hosts, kMoreTraffic);
    world.barrier();
  });
}

TEST_P(HostsTraffic, OfAGatherIsOneShareOfTheUnitForEachHost) {
  const testing::ScratchDirectory scratch;
  run_on_hosts(GetParam(), [&](World& world) {
    CountedRank rank(world, scratch.path());
    auto context = std::make_shared<hosts::HostsContext>(rank.spec, rank.wire);
    const layout::UnitLayout layout({kNumel}, world.size(), world.size());
    hosts::HostsUnit unit(context, {.name = "unit", .layout = layout, .may_be_kept = false});
    unit.shard().fill_(static_cast<float>(world.rank()));
    unit.publish();
    for (int use = 0; use < 2; ++use) {
      rank.bytes = 0;
      unit.begin_gather({}, Order::Common);
      const auto* full = static_cast<const float*>(unit.wait_gather());
      EXPECT_EQ(full[kNumel - 1], static_cast<float>(world.size() - 1));
      EXPECT_NEAR(rank.sent_as_a_ring(), 1, kMoreTraffic);
      unit.release();
    }
    EXPECT_EQ(context->buffer_bytes(), world.local_rank() == 0 ? layout.full_numel() * 4 : 0);
    world.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Of, HostsTraffic, ::testing::Values(Hosts{2, 2}, Hosts{3, 2}),
                         ::testing::PrintToStringParamName());

TEST(OneRankOnEachHost, SendsWhatARingDoes) {
  const testing::ScratchDirectory scratch;
  run_on_hosts(Hosts{3, 1}, [&](World& world) {
    CountedRank rank(world, scratch.path());
    const layout::UnitLayout layout({kNumel}, world.size(), world.size());
    const layout::GradientLayout gradient_layout(layout, {1});
    UnitExchange unit(rank.wire, {.name = "unit", .layout = layout});
    const torch::Tensor gradients = torch::ones({gradient_layout.full_numel()});
    for (const double traffic : traffic_of(rank, unit, gradient_layout, gradients))
      EXPECT_NEAR(traffic, 1, kMoreTraffic);
    world.barrier();
  });
}

}  // namespace
}  // namespace fsdp::collectives
