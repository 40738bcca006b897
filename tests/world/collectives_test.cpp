// The collectives of a World, on every backend, against the same arithmetic in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "fsdp/world.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using Tensors = std::vector<torch::Tensor>;

const std::vector<torch::ScalarType> kCalculable = {
    torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kHalf, torch::kInt64,        torch::kInt32,
    torch::kInt16,   torch::kInt8,    torch::kUInt8,    torch::kBool, torch::kComplexFloat,
};

// Small ones travel in a call's first messages, long ones in several blocks.
std::vector<std::vector<int64_t>> shapes_for(torch::ScalarType dtype) {
  std::vector<std::vector<int64_t>> shapes{{}, {0}, {1}, {12, 0}, {12, 5}, {12, 3000}};
  if (dtype == torch::kFloat32 || dtype == torch::kBFloat16) shapes.push_back({12, 3, 70001});
  return shapes;
}

// Rank `rank`'s tensor of a call, which each rank can make.
torch::Tensor values_of(int rank, const std::vector<int64_t>& shape, torch::ScalarType dtype) {
  const auto seed = static_cast<uint64_t>(rank * 1000 + static_cast<int>(dtype));
  const torch::Tensor values = torch::randn(shape, at::detail::createCPUGenerator(seed)) * 50;
  return dtype == torch::kBool ? values.gt(0) : values.to(dtype);
}

// Equal values whose neighbours do not lie beside each other.
torch::Tensor strided(const torch::Tensor& values) {
  if (values.dim() < 2) {
    torch::Tensor wide = torch::zeros({std::max<int64_t>(values.numel(), 1), 2}, values.options());
    torch::Tensor column = wide.select(1, 1).narrow(0, 0, values.numel()).view(values.sizes());
    return column.copy_(values), column;
  }
  return values.transpose(0, 1).contiguous().transpose(0, 1);
}

torch::Tensor combined(Tensors parts, ReduceOp op) {
  const torch::ScalarType dtype = parts[0].scalar_type();
  torch::Tensor result = parts[0].to(at::isReducedFloatingType(dtype) ? torch::kFloat32 : dtype).clone();
  for (size_t i = 1; i < parts.size(); ++i) {
    const torch::Tensor part = parts[i].to(result.scalar_type());
    result = op == ReduceOp::Max     ? at::maximum(result, part)
             : op == ReduceOp::Min   ? at::minimum(result, part)
             : dtype == torch::kBool ? result.logical_or(part)
                                     : result + part;
  }
  if (op == ReduceOp::Mean) result = result / static_cast<int64_t>(parts.size());
  return result.to(dtype);
}

bool can(ReduceOp op, torch::ScalarType dtype) {
  if (op == ReduceOp::Mean) return !at::isIntegralType(dtype, true);
  return op == ReduceOp::Sum || !at::isComplexType(dtype);
}

void check_reductions(World& world, const std::vector<int64_t>& shape, torch::ScalarType dtype, ReduceOp op) {
  Tensors all;
  for (int rank = 0; rank < world.size(); ++rank) all.push_back(values_of(rank, shape, dtype));
  const torch::Tensor expected = combined(all, op);
  torch::Tensor tensor = strided(all[world.rank()]);
  world.all_reduce_(tensor, op);
  EXPECT_TRUE(tensor.equal(expected)) << shape << dtype;
  const int root = world.size() - 1;
  torch::Tensor at_root = strided(all[world.rank()]);
  world.reduce_(at_root, root, op);
  EXPECT_TRUE(at_root.equal(world.rank() == root ? expected : all[world.rank()])) << shape << dtype;
  if (shape.empty() || shape[0] % world.size() != 0) return;
  const torch::Tensor part = world.reduce_scatter(strided(all[world.rank()]), op);
  EXPECT_TRUE(part.equal(expected.chunk(world.size())[world.rank()].view(part.sizes()))) << shape << dtype;
}

void check_moves(World& world, const std::vector<int64_t>& shape, torch::ScalarType dtype) {
  const int rank = world.rank(), size = world.size();
  for (int root = 0; root < size; ++root) {
    torch::Tensor tensor = strided(values_of(rank, shape, dtype));
    world.broadcast_(tensor, root);
    EXPECT_TRUE(tensor.equal(values_of(root, shape, dtype)));
    const Tensors gathered = world.gather(strided(values_of(rank, shape, dtype)), root);
    ASSERT_EQ(gathered.size(), rank == root ? size : 0);
    for (size_t from = 0; from < gathered.size(); ++from)
      EXPECT_TRUE(gathered[from].equal(values_of(static_cast<int>(from), shape, dtype)));
    Tensors parts;
    for (int to = 0; to < size && rank == root; ++to) parts.push_back(strided(values_of(100 + to, shape, dtype)));
    EXPECT_TRUE(world.scatter(parts, root).equal(values_of(100 + rank, shape, dtype)));
  }
  for (int from = 0; from < size; ++from)
    EXPECT_TRUE(world.all_gather(strided(values_of(rank, shape, dtype)))[from].equal(values_of(from, shape, dtype)));
  Tensors to, from;
  for (int peer = 0; peer < size; ++peer) to.push_back(strided(values_of(rank * size + peer, shape, dtype)));
  from = world.all_to_all(to);
  for (int peer = 0; peer < size; ++peer) EXPECT_TRUE(from[peer].equal(values_of(peer * size + rank, shape, dtype)));
}

// A ring: each rank sends to the next one and receives from the one before.
void check_messages(World& world, const std::vector<int64_t>& shape, torch::ScalarType dtype) {
  const int rank = world.rank(), size = world.size();
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  torch::Tensor first = strided(torch::zeros(shape, dtype)), second = torch::zeros(shape, dtype);
  Work arrives_second = world.receive_async_(second, before, 9);
  Work leaves_first = world.send_async(strided(values_of(rank, shape, dtype)), next, 3);
  Work leaves_second = world.send_async(values_of(rank + 50, shape, dtype), next, 9);
  arrives_second.wait();
  EXPECT_TRUE(second.equal(values_of(before + 50, shape, dtype)));
  world.receive_(first, before, 3);
  EXPECT_TRUE(first.equal(values_of(before, shape, dtype)));
  for (Work* work : {&leaves_first, &leaves_second}) work->wait();
  EXPECT_TRUE(arrives_second.done());
}

using Place = std::pair<const char*, int>;  // a backend and so many ranks

class Collectives : public ::testing::TestWithParam<Place> {
 protected:
  static void run(const std::function<void(World& world)>& body) {
    LaunchOptions options = testing::patient_options();
    options.backend = GetParam().first;
    run_ranks(GetParam().second, body, options);
  }
};

TEST_P(Collectives, CombineTensorsInRankOrder) {
  run([](World& world) {
    for (const torch::ScalarType dtype : kCalculable)
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min})
        for (const auto& shape : shapes_for(dtype))
          if (can(op, dtype)) check_reductions(world, shape, dtype, op);
  });
}

TEST_P(Collectives, MoveTensorsOfEveryDtypeAndShape) {
  run([](World& world) {
    for (const torch::ScalarType dtype :
         {torch::kFloat32, torch::kBFloat16, torch::kInt64, torch::kBool, torch::kFloat8_e4m3fn, torch::kComplexDouble})
      for (const auto& shape : shapes_for(dtype)) check_moves(world, shape, dtype);
  });
}

TEST_P(Collectives, MessagesMatchByTagAndInOrder) {
  run([](World& world) {
    for (const torch::ScalarType dtype : {torch::kFloat32, torch::kInt64, torch::kBool})
      for (const auto& shape : shapes_for(dtype)) check_messages(world, shape, dtype);
    world.barrier();
  });
}

TEST_P(Collectives, TensorsOfAListMayDiffer) {
  run([](World& world) {
    const auto part = [](int from, int to) {
      return torch::full({from + 1, to}, from * 10 + to, from % 2 ? torch::kInt32 : torch::kFloat64);
    };
    Tensors to;
    for (int peer = 0; peer < world.size(); ++peer) to.push_back(part(world.rank(), peer));
    const Tensors from = world.all_to_all(to);
    for (int peer = 0; peer < world.size(); ++peer) EXPECT_TRUE(from[peer].equal(part(peer, world.rank())));
    EXPECT_TRUE(world.scatter(world.rank() == 0 ? to : Tensors(), 0).equal(part(0, world.rank())));
  });
}

TEST_P(Collectives, CallsThatDoNotWaitGoOnBesideOthers) {
  run([](World& world) {
    Tensors sums, copies;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      sums.push_back(torch::full({i * 5000}, world.rank() + i, torch::kFloat32));
      copies.push_back(torch::full({3}, world.rank(), torch::kInt64));
      works.push_back(world.all_reduce_async_(sums.back()));
      works.push_back(world.broadcast_async_(copies.back(), i % world.size()));
      torch::Tensor one = torch::ones({1});
      world.all_reduce_(one);
      EXPECT_EQ(one.item<float>(), world.size());
    }
    for (Work& work : works) work.wait();
    const int ranks = world.size();
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(sums[i].equal(torch::full({i * 5000}, ranks * (ranks - 1) / 2 + ranks * i, torch::kFloat32)));
      EXPECT_TRUE(copies[i].equal(torch::full({3}, i % ranks, torch::kInt64)));
    }
  });
}

// The tensors that are sent stay alive, and messages that nobody waits for arrive.
TEST_P(Collectives, AMessageThatIsDroppedGoesItsWay) {
  run([](World& world) {
    if (world.size() == 1) return;
    constexpr int64_t kNumel = 3'000'000;
    if (world.rank() == 0) {
      for (int i = 0; i < 3; ++i) world.send_async(torch::full({kNumel}, i, torch::kFloat32), 1);
    }
    if (world.rank() == 1) {
      torch::Tensor tensor = torch::zeros({kNumel});
      for (int i = 0; i < 3; ++i) {
        world.receive_(tensor, 0);
        EXPECT_TRUE(tensor.eq(i).all().item<bool>());
      }
    }
    world.barrier();
  });
}

// A ring of long messages. No rank waits before both of its own are done.
TEST_P(Collectives, AMessageIsDoneWhenItHasArrived) {
  run([](World& world) {
    const int rank = world.rank(), size = world.size();
    if (size == 1) return;
    for (int64_t numel : {3, 3'000'000}) {
      torch::Tensor arriving = torch::zeros({numel});
      Work arrives = world.receive_async_(arriving, (rank + size - 1) % size);
      Work leaves = world.send_async(torch::full({numel}, rank, torch::kFloat32), (rank + 1) % size);
      while (!arrives.done() || !leaves.done()) std::this_thread::yield();
      arrives.wait();
      leaves.wait();
      EXPECT_TRUE(arriving.eq((rank + size - 1) % size).all().item<bool>());
    }
  });
}

// The other rank never sends.
TEST_P(Collectives, AMessageThatIsAskedAndNotAwaitedIsGivenUp) {
  run([](World& world) {
    if (world.size() == 1) return;
    torch::Tensor arriving = torch::zeros({100'000});
    if (world.rank() == 0) {
      Work arrives = world.receive_async_(arriving, 1);
      EXPECT_FALSE(arrives.done());
    }
    world.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Places, Collectives,
                         testing::drawn<Place>({{"shm", 3}, {"gloo", 2}},
                                               {{"auto", 1}, {"shm", 2}, {"shm", 4}, {"gloo", 4}}),
                         [](const auto& place) {
                           return std::string(place.param.first) + std::to_string(place.param.second);
                         });

TEST(Collectives, NameTheRankWhoseArgumentsDiffer) {
  run_ranks(2, [](World& world) {
    const int rank = world.rank();
    torch::Tensor tensor = torch::ones({4, 2});
    EXPECT_THAT(
        testing::message_of([&] { world.all_reduce_(tensor, rank ? ReduceOp::Max : ReduceOp::Sum); }),
        HasSubstr("rank 1 found all_reduce_ by Max of a Float tensor of shape [4, 2], expected all_reduce_ of a "
                  "Float tensor of shape [4, 2] as on rank 0"));
    EXPECT_THAT(testing::message_of([&] { world.reduce_(tensor, rank); }),
                HasSubstr("rank 1 found reduce_ to rank 1 of"));
    EXPECT_THAT(testing::message_of([&] { world.gather(tensor.narrow(0, 0, 4 - rank)); }),
                HasSubstr("rank 1 found gather to rank 0 of a Float tensor of shape [3, 2], expected"));
    EXPECT_THAT(testing::message_of([&] {
                  world.scatter({tensor, tensor}, rank);
                }),
                HasSubstr("rank 1 found scatter from rank 1, expected scatter from rank 0"));
    EXPECT_THAT(testing::message_of([&] {
                  rank ? world.all_to_all({tensor, tensor}) : world.all_gather(tensor);
                }),
                HasSubstr("rank 1 found all_to_all, expected all_gather of"));
    torch::Tensor longer = torch::ones({2 + rank * 200'000});
    EXPECT_THAT(testing::message_of([&] { world.reduce_scatter(longer); }),
                HasSubstr("rank 1 found reduce_scatter of"));
    EXPECT_TRUE(tensor.eq(1).all().item<bool>());
    world.all_reduce_(tensor);
    EXPECT_TRUE(tensor.eq(2).all().item<bool>());
  });
}

TEST(Collectives, TakeTheValuesOfViewsThatConjugateOrNegate) {
  run_ranks(2, [](World& world) {
    const auto values = [](int rank) { return torch::complex(torch::ones({3}) * (rank + 1), torch::ones({3}) * 4); };
    torch::Tensor conjugate = values(world.rank()).conj();
    EXPECT_TRUE(world.all_gather(conjugate)[1].equal(values(1).conj()));
    EXPECT_TRUE(world.all_gather(torch::imag(conjugate))[1].equal(torch::ones({3}) * -4));
    world.all_reduce_(conjugate);
    EXPECT_TRUE(conjugate.equal((values(0) + values(1)).conj()));
    torch::Tensor arrived = torch::zeros({3}, torch::kComplexFloat).conj();
    if (world.rank() == 0) world.send(values(7).conj(), 1);
    if (world.rank() == 1) {
      world.receive_(arrived, 0);
      EXPECT_TRUE(arrived.equal(values(7).conj()));
    }
  });
}

TEST(Collectives, GoOnBesideTheProgramInItsModes) {
  run_ranks(2, [](World& world) {
    const torch::InferenceMode mode;
    torch::Tensor tensor = torch::ones({4});
    world.all_reduce_async_(tensor).wait();
    EXPECT_TRUE(tensor.eq(2).all().item<bool>());
  });
}

TEST(Collectives, TellAutogradOfWhatTheyWrite) {
  run_ranks(2, [](World& world) {
    torch::Tensor leaf = torch::ones({2}).requires_grad_(), factor = torch::ones({2});
    const torch::Tensor product = (leaf * factor).sum();
    world.broadcast_(factor);
    EXPECT_THAT(testing::message_of([&] { product.backward(); }), HasSubstr("modified by an inplace operation"));
  });
}

TEST(Collectives, RefuseWhatCannotBeDone) {
  run_ranks(2, [](World& world) {
    torch::Tensor whole = torch::ones({3}, torch::kInt32), complex = torch::ones({2}, torch::kComplexFloat);
    EXPECT_THAT(testing::message_of([&] { world.all_reduce_(whole, ReduceOp::Mean); }),
                HasSubstr("the Mean of a Int tensor"));
    EXPECT_THAT(testing::message_of([&] { world.reduce_(complex, 0, ReduceOp::Min); }), HasSubstr("have no order"));
    EXPECT_THAT(testing::message_of([&] { world.reduce_scatter(whole); }),
                HasSubstr("found a tensor of shape [3], expected a first dimension that 2 ranks divide evenly"));
    torch::Tensor expanded = torch::ones({1}).expand({4});
    EXPECT_THAT(testing::message_of([&] { world.broadcast_(expanded); }), HasSubstr("found an expanded tensor"));
    EXPECT_THAT(testing::message_of([&] { world.all_gather(torch::zeros(std::vector<int64_t>(13, 1))); }),
                HasSubstr("13 dimensions, expected at most 12"));
    const torch::Tensor quantized = torch::quantize_per_tensor(torch::ones({2}), 0.1, 0, torch::kQInt8);
    EXPECT_THAT(testing::message_of([&] { world.all_gather(quantized); }), HasSubstr("found a quantized tensor"));
    EXPECT_THAT(testing::message_of([&] { world.all_to_all({whole}); }), HasSubstr("a list of 1 tensors, expected 2"));
    EXPECT_THAT(testing::message_of([&] { world.send(whole, world.rank()); }), HasSubstr("which is this rank"));
    EXPECT_THAT(testing::message_of([&] { world.receive_(whole, 2); }),
                HasSubstr("the peer is rank 2, expected 0 to 1"));
    EXPECT_THAT(testing::message_of([&] { world.send(whole, 1 - world.rank(), -1); }),
                HasSubstr("tag -1, expected 0 to 32767"));
    world.barrier();
  });
}

TEST(Collectives, AReceiverNamesTheShapesThatDiffer) {
  for (const char* backend : {"shm", "gloo"}) {
    LaunchOptions options = testing::patient_options();
    options.backend = backend;
    run_ranks(
        2,
        [](World& world) {
          // Over Gloo the elements wait for a receiver, and none comes.
          if (world.rank() == 0) {
            testing::message_of([&] { world.send(torch::zeros({4, 2}, torch::kInt64), 1, 5); });
            return;
          }
          torch::Tensor tensor = torch::zeros({3});
          EXPECT_THAT(
              testing::message_of([&] { world.receive_(tensor, 0, 5); }),
              HasSubstr("receive_: found a Long tensor of shape [4, 2] from rank 0 with tag 5, expected a Float "
                        "tensor of shape [3]"));
        },
        options);
  }
}

TEST(Collectives, ACallThatDoesNotWaitTellsItsErrorInWait) {
  run_ranks(2, [](World& world) {
    torch::Tensor tensor = torch::ones({2 + world.rank()});
    Work work = world.all_reduce_async_(tensor);
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(testing::message_of([&] { work.wait(); }),
                  HasSubstr("rank 1 found all_reduce_ of a Float tensor of shape [3]"));
    EXPECT_TRUE(work.done());
    EXPECT_TRUE(tensor.eq(1).all().item<bool>());
  });
}

}  // namespace
}  // namespace fsdp
