#include "collectives/group_checks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "collectives/all_reduce.h"
#include "collectives/whole_tensors.h"

namespace fsdp::collectives {

namespace {

using layout::GradientLayout;
using layout::UnitLayout;

// Units of several sizes, in groups of every size that divides the ranks.
std::vector<UnitLayout> layouts(int ranks) {
  std::vector<UnitLayout> all;
  for (const std::vector<int64_t>& numels : {std::vector<int64_t>{5}, {64, 1, 1000}, {3, 100000, 7}, {}, {1}})
    for (int shards = 1; shards <= ranks; ++shards)
      if (ranks % shards == 0) all.emplace_back(numels, ranks, shards);
  return all;
}

// Alike on every rank.
torch::Generator generator(int64_t seed) { return at::detail::createCPUGenerator(seed); }

torch::Tensor full_values(const UnitLayout& layout, torch::ScalarType dtype, int64_t seed) {
  return torch::randn({layout.full_numel()}, generator(seed)).to(dtype);
}

void write(Group& group, UnitCollectives& unit, const UnitLayout& layout, const torch::Tensor& full) {
  unit.begin_write(Readers::Wait);
  unit.shard().copy_(full.narrow(0, layout.shard_of(group.rank()).begin, layout.shard_numel()));
  unit.publish();
}

torch::Tensor gather(UnitCollectives& unit, const UnitLayout& layout, torch::ScalarType dtype) {
  torch::Tensor buffer;
  if (unit.capabilities().into_buffer) buffer = torch::zeros({layout.full_numel()}, torch::dtype(dtype));
  unit.begin_gather(buffer, Order::Common);
  torch::Tensor full = torch::from_blob(unit.wait_gather(), {layout.full_numel()}, torch::dtype(dtype)).clone();
  unit.release();
  return full;
}

// All ranks' gradients and flags of one micro-batch, from a seed.
struct MicroBatch {
  std::vector<torch::Tensor> gradients;
  std::vector<std::vector<uint8_t>> present;
};

std::vector<uint8_t> random_flags(size_t count, double share, torch::Generator random) {
  torch::Tensor flags = torch::rand({static_cast<int64_t>(count) + 1}, random).lt(share);
  std::vector<uint8_t> result;
  for (size_t i = 0; i < count; ++i) result.push_back(flags[i].item<bool>());
  return result;
}

torch::Tensor make_gradients(int64_t numel, Values values, torch::Generator random) {
  return values == Values::Any ? torch::randn({numel}, random) : torch::randint(-4, 5, {numel}, random);
}

MicroBatch make_batch(const GradientLayout& layout, torch::ScalarType dtype, int ranks, int64_t seed, Values values) {
  MicroBatch batch;
  auto random = generator(seed);
  for (int rank = 0; rank < ranks; ++rank) {
    batch.gradients.push_back(make_gradients(layout.full_numel(), values, random).to(dtype));
    batch.present.push_back(random_flags(layout.parameters(), 0.6, random));
    for (size_t i = 0; i < layout.parameters(); ++i) batch.present[rank][i] &= layout.wanted()[i];
  }
  return batch;
}

torch::Tensor allocate(Group& group, int64_t numel, torch::ScalarType dtype) {
  return group.allocate(numel * static_cast<int64_t>(c10::elementSize(dtype))).view(dtype);
}

// A sum without memory takes the place of the gradients.
void reduce(Group& group, UnitCollectives& unit, const GradientLayout& layout, const MicroBatch& batch,
            GradientSum& sum) {
  const torch::Tensor& own = batch.gradients[group.rank()];
  torch::Tensor gradients = allocate(group, own.numel(), own.scalar_type()).copy_(own);
  const bool in_place = !sum.values.defined();
  if (in_place) sum.values = gradients;
  torch::Tensor staging = torch::empty({unit.staging_numel(layout)}, gradients.options());
  unit.begin_reduce({&layout, gradients, batch.present[group.rank()], staging}, sum);
  unit.wait_reduce();
  if (!in_place) gradients.fill_(NAN);  // free from here on
}

// The whole unit's sum, over ranks and then micro-batches, one parameter at a time.
void add_naively(const UnitLayout& unit, const GradientLayout& layout, const MicroBatch& batch, torch::Tensor& full,
                 std::vector<uint8_t>& held) {
  for (size_t i = 0; i < layout.parameters(); ++i)
    for (int rank = 0; rank < unit.ranks(); ++rank) {
      if (!batch.present[rank][i]) continue;
      const torch::Tensor added = batch.gradients[rank].narrow(0, layout.offset_of(i), unit.numel_of(i));
      torch::Tensor sum = full.narrow(0, unit.offset_of(i), unit.numel_of(i));
      held[i] ? sum.add_(added) : sum.copy_(added);
      held[i] = 1;
    }
}

void expect_same_pieces(const UnitLayout& unit, const GradientLayout& layout, int rank, const GradientSum& sum,
                        const torch::Tensor& full) {
  torch::Tensor expected = full.narrow(0, unit.shard_of(rank).begin, unit.shard_numel());
  for (size_t i = 0; i < layout.parameters(); ++i) {
    layout::Range piece = unit.piece_of(i, rank);
    if (!sum.held[i]) continue;
    EXPECT_TRUE(sum.values.narrow(0, layout.piece_of(i, rank).begin, piece.numel())
                    .equal(expected.narrow(0, piece.begin, piece.numel())))
        << "parameter " << i;
  }
}

// Four steps of three micro-batches; in every other one the sum lies in the place of the first gradients, if it may.
void check_reduce(Group& group, const UnitLayout& unit, torch::ScalarType dtype, int id, double trainable,
                  Values values) {
  auto collectives = group.open_unit({.id = id, .name = "unit", .layout = unit, .gradient_dtype = dtype});
  GradientLayout layout(unit, random_flags(unit.parameters(), trainable, generator(id)));
  for (int64_t step = 0; step < 4; ++step) {
    GradientSum sum{{}, std::vector<uint8_t>(unit.parameters())};
    const bool may_be_in_place =
        collectives->capabilities().sums_in_place && unit.shards() == 1 && dtype == torch::kFloat32;
    if (!may_be_in_place || step % 2 == 0)
      sum.values = allocate(group, layout.shard_of(group.rank()).numel(), torch::kFloat32).fill_(NAN);
    torch::Tensor full = torch::zeros({unit.full_numel()});
    std::vector<uint8_t> held(unit.parameters());
    for (int64_t batch_number = 0; batch_number < 3; ++batch_number) {
      MicroBatch batch = make_batch(layout, dtype, group.size(), step * 10 + batch_number, values);
      add_naively(unit, layout, batch, full, held);
      reduce(group, *collectives, layout, batch, sum);
    }
    collectives->wait_sum();
    if (unit.shards() == unit.ranks()) EXPECT_TRUE(collectives->sum_is_complete());
    EXPECT_EQ(sum.held, held);
    expect_same_pieces(unit, layout, group.rank(), sum, full);
  }
}

void check_all_reduce(Group& group, torch::ScalarType dtype, int64_t numel) {
  std::vector<torch::Tensor> all;
  for (int rank = 0; rank < group.size(); ++rank) all.push_back((torch::randn({numel}, generator(rank)) * 3).to(dtype));
  bool narrow = at::isReducedFloatingType(dtype);
  torch::Tensor expected = narrow ? all[0].to(torch::kFloat32) : all[0].clone();
  for (int rank = 1; rank < group.size(); ++rank) expected.add_(narrow ? all[rank].to(torch::kFloat32) : all[rank]);
  torch::Tensor mine = all[group.rank()].clone();
  group.all_reduce_(mine);
  EXPECT_TRUE(mine.equal(expected.to(dtype))) << c10::toString(dtype) << " x " << numel;
}

void check_gather(Group& group, bool may_be_kept) {
  int id = 0;
  for (const UnitLayout& layout : layouts(group.size()))
    for (torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
      auto unit = group.open_unit({id++, "unit", layout, dtype, torch::kFloat32, may_be_kept});
      for (int64_t seed : {1, 2, 3}) {
        torch::Tensor full = full_values(layout, dtype, seed);
        write(group, *unit, layout, full);
        EXPECT_TRUE(gather(*unit, layout, dtype).equal(full));
        EXPECT_TRUE(gather(*unit, layout, dtype).equal(full));
      }
    }
}

}  // namespace

void check_gather(Group& group) { check_gather(group, /*may_be_kept=*/true); }
void check_gather_each_time(Group& group) { check_gather(group, /*may_be_kept=*/false); }

void check_writes_in_any_order(Group& group) {
  const UnitLayout layout({1000}, group.size(), group.size());
  auto unit = group.open_unit({.id = 200, .name = "unit", .layout = layout});
  const auto write_and_check = [&](int64_t seed) {
    const torch::Tensor full = full_values(layout, torch::kFloat32, seed);
    unit->shard().copy_(full.narrow(0, layout.shard_of(group.rank()).begin, layout.shard_numel()));
    unit->publish();
    EXPECT_TRUE(gather(*unit, layout, torch::kFloat32).equal(full));
  };
  write_and_check(1);
  // They ask one after the other: who has been asked has said that it reads no more.
  bool may_write = false;
  for (int turn = 0; turn < group.size(); ++turn) {
    if (turn == group.rank()) may_write = unit->begin_write(Readers::Ask);
    if (turn == 0 && group.rank() == 0) EXPECT_EQ(may_write, group.size() == 1 || !unit->capabilities().one_sided);
    group.barrier();
  }
  EXPECT_TRUE(may_write || unit->begin_write(Readers::Ask));
  write_and_check(2);
  may_write = group.rank() % 2 == 0 && unit->begin_write(Readers::Ask);
  if (!may_write) unit->begin_write(Readers::WaitInAnyOrder);
  write_and_check(3);
}

void check_reduce(Group& group, Values values) {
  int id = 100;  // odd and even for each dtype, of one layout or the next
  for (const UnitLayout& layout : layouts(group.size()))
    for (torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
      check_reduce(group, layout, dtype, id, id % 2 == 0 ? 1.1 : 0.5, values);
      ++id;
    }
}

void check_exchanges(Group& group, torch::Device device) {
  const int size = group.size(), rank = group.rank();
  const auto values = [&](int from, int to, int64_t numel) {
    return torch::full({numel}, from * 100 + to, torch::dtype(torch::kInt32).device(device));
  };
  for (const int64_t numel : {0, 5, 400'000}) {
    std::vector<torch::Tensor> to(size), from(size);
    for (int peer = 0; peer < size; ++peer) {
      if (peer != (rank + 1) % size) to[peer] = values(rank, peer, numel + peer + rank);
      if (rank != (peer + 1) % size) from[peer] = values(-1, -1, numel + peer + rank);
    }
    EXPECT_TRUE(group.tensors().exchange(to, from, "exchanges"));
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank && from[peer].defined()) EXPECT_TRUE(from[peer].equal(values(peer, rank, numel + peer + rank)));
    }
  }
  torch::Tensor sum = values(rank, 0, 100'003 * size), expected = values(0, 0, 100'003 * size);
  expected.fill_(100 * size * (size - 1) / 2);
  EXPECT_TRUE(reduce_scatter(group, sum, ReduceOp::Sum).equal(expected.narrow(0, 0, 100'003)));
  reduce_(group, sum, size - 1, ReduceOp::Sum);
  EXPECT_TRUE(sum.equal(rank == size - 1 ? expected : values(rank, 0, 100'003 * size)));
}

// A ring, first with room for a whole tensor in a transport, then without.
void check_messages_of_two(Group& group, torch::Device device) {
  const int size = group.size(), rank = group.rank(), next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int64_t numel : {0, 7, 1'000'000}) {
    if (size == 1) return;
    const auto options = torch::dtype(torch::kFloat32).device(device);
    torch::Tensor sent = torch::full({numel}, rank, options), received = torch::zeros({numel}, options);
    const auto leaves = group.tensors().send(sent, next, 1), arrives = group.tensors().receive_(received, before, 1);
    arrives->wait();
    leaves->wait();
    EXPECT_TRUE(arrives->is_over());
    EXPECT_TRUE(received.equal(torch::full({numel}, before, options)));
  }
}

void check_whole_tensors(Group& group) {
  const int64_t small = kSmallBytes / 4;
  for (int64_t numel : {int64_t{0}, int64_t{1}, small, small + 1}) check_all_reduce(group, torch::kFloat32, numel);
  for (const int64_t chunk : {128 << 10, 1 << 20}) {  // of transports
    const int64_t block = group.size() * chunk / 4;
    for (int64_t numel : {block, block + 1, 2 * block - 5}) check_all_reduce(group, torch::kFloat32, numel);
  }
  for (torch::ScalarType dtype : {torch::kFloat64, torch::kBFloat16, torch::kHalf, torch::kInt64, torch::kBool})
    for (int64_t numel : {int64_t{3}, small * 4 + 7}) check_all_reduce(group, dtype, numel);
  for (int source = 0; source < group.size(); ++source)
    for (int64_t numel : {0, 1, 300000}) {
      torch::Tensor tensor = torch::full({numel}, group.rank() + 1.0f);
      group.broadcast_(tensor, source);
      EXPECT_TRUE(tensor.equal(torch::full({numel}, source + 1.0f)));
      group.barrier();
    }
  check_exchanges(group, torch::kCPU);
  check_messages_of_two(group, torch::kCPU);
  std::vector<torch::Tensor> all = group.all_gather(torch::full({2, 3}, group.rank(), torch::kInt32));
  ASSERT_EQ(static_cast<int>(all.size()), group.size());
  for (int rank = 0; rank < group.size(); ++rank)
    EXPECT_TRUE(all[rank].equal(torch::full({2, 3}, rank, torch::kInt32)));
}

}  // namespace fsdp::collectives
