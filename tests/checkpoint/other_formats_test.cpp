// With strict off a checkpoint is loaded whose states are kept in another format than the optimizer's: converted as one
// process would, whatever ranks saved it and load it.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "optim/block8.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using optim::kBlock8Numel;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Pieces end within a row and within a block of 64 elements.
torch::nn::Sequential make_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(37, 21), torch::nn::Linear(21, 9));
}

using Values = std::map<std::string, torch::Tensor>;  // in fp32, by the state's name and the parameter's number

template <typename Code>
torch::Tensor unpacked(const torch::Tensor& codes, const torch::Tensor& scales) {
  torch::Tensor values = torch::empty({codes.numel()});
  for (int64_t block = 0; block < scales.numel(); ++block) {
    const int64_t begin = block * kBlock8Numel, end = std::min(begin + kBlock8Numel, codes.numel());
    const Code* first = codes.const_data_ptr<Code>();
    optim::block8_unpack(std::span(first + begin, first + end), scales[block].item<float>(),
                         values.mutable_data_ptr<float>() + begin);
  }
  return values;
}

template <typename Code>
torch::Tensor packed_and_back(const torch::Tensor& values) {
  torch::Tensor codes = torch::empty({values.numel()}, c10::CppTypeToScalarType<Code>::value);
  torch::Tensor scales = torch::empty({(values.numel() + kBlock8Numel - 1) / kBlock8Numel});
  for (int64_t block = 0; block < scales.numel(); ++block) {
    const int64_t begin = block * kBlock8Numel, end = std::min(begin + kBlock8Numel, values.numel());
    const auto* first = values.const_data_ptr<float>();
    scales[block] = optim::block8_pack(std::span(first + begin, first + end), codes.mutable_data_ptr<Code>() + begin);
  }
  return unpacked<Code>(codes, scales);
}

// Of an optimizer on one rank.
Values values_of(Optimizer& optimizer) {
  std::map<std::string, torch::Tensor> kept;
  for (const auto& [name, tensors] : optimizer.state().elements) {
    for (size_t i = 0; i < tensors.size(); ++i) kept[fmt::format("{}.{}", i, name)] = tensors[i];
  }
  Values values;
  for (const auto& [name, tensor] : kept) {
    if (name.ends_with("_scale")) continue;
    if (tensor.scalar_type() == torch::kChar) {
      values[name] = unpacked<int8_t>(tensor, kept.at(name + "_scale"));
    } else if (tensor.scalar_type() == torch::kByte) {
      values[name] = unpacked<uint8_t>(tensor, kept.at(name + "_scale"));
    } else {
      values[name] = tensor.to(torch::kFloat).clone();
    }
  }
  return values;
}

Values converted(const Values& values, StateDtype to) {
  Values all;
  for (const auto& [name, tensor] : values) {
    all[name] = to == StateDtype::Float32      ? tensor
                : to == StateDtype::BFloat16   ? tensor.to(torch::kBFloat16).to(torch::kFloat)
                : name.ends_with("exp_avg_sq") ? packed_and_back<uint8_t>(tensor)
                                               : packed_and_back<int8_t>(tensor);
  }
  return all;
}

void expect_same(const Values& found, const Values& expected) {
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
}

void train(torch::nn::Sequential& net, Optimizer& optimizer) {
  for (int step = 0; step < 2; ++step) {
    torch::manual_seed(step);
    net->forward(torch::randn({5, 37})).pow(2).sum().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
}

using Formats = std::tuple<StateDtype, StateDtype>;

class OtherFormats : public ::testing::TestWithParam<Formats> {
 protected:
  std::filesystem::path path(const std::string& name) const { return scratch_.path() / name; }

  // Loads `from` with an optimizer that keeps its states otherwise, and saves it again.
  void convert(World& world, const std::string& from, const std::string& to, Values* values = nullptr) {
    auto net = make_net();
    auto sharded = shard(*net, world);
    AdamW optimizer(sharded, {.state_dtype = std::get<1>(GetParam())});
    const Checkpoint checkpoint{.model = &sharded, .optimizer = &optimizer};
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(path(from), checkpoint); }),
                AllOf(HasSubstr("another optimizer"), HasSubstr("set state_dtype to"), HasSubstr("with strict off")));
    LoadDifferences found;
    load_checkpoint(path(from), checkpoint, {.strict = false, .differences = &found});
    EXPECT_THAT(found.converted, AllOf(SizeIs(2 * 4), Contains("optimizer.exp_avg.0.weight")));
    EXPECT_THAT(found.missing, IsEmpty());
    EXPECT_THAT(found.extra, IsEmpty());
    const Optimizer::State state = optimizer.state();
    for (const torch::Tensor& step : state.scalars[0].tensors) EXPECT_EQ(step.item<float>(), 2);
    if (values != nullptr) *values = values_of(optimizer);
    save_checkpoint(path(to), checkpoint);
  }

 private:
  ScratchDirectory scratch_;
};

std::string name_of_formats(const Formats& formats) {
  const auto name = [](StateDtype dtype) {
    return dtype == StateDtype::Float32 ? "Float32" : dtype == StateDtype::BFloat16 ? "BFloat16" : "Block8";
  };
  return fmt::format("{}To{}", name(std::get<0>(formats)), name(std::get<1>(formats)));
}

INSTANTIATE_TEST_SUITE_P(All, OtherFormats,
                         drawn<Formats>({Formats(StateDtype::Float32, StateDtype::Block8),
                                         Formats(StateDtype::Block8, StateDtype::BFloat16)},
                                        {Formats(StateDtype::Float32, StateDtype::BFloat16),
                                         Formats(StateDtype::BFloat16, StateDtype::Float32),
                                         Formats(StateDtype::BFloat16, StateDtype::Block8),
                                         Formats(StateDtype::Block8, StateDtype::Float32)}),
                         [](const auto& info) { return name_of_formats(info.param); });

TEST_P(OtherFormats, AreConvertedAsByOneProcess) {
  const auto [from, to] = GetParam();
  run_ranks(3, [&](World& world) {
    auto net = make_net();
    auto sharded = shard(*net, world);
    AdamW optimizer(sharded, {.state_dtype = from});
    train(net, optimizer);
    save_checkpoint(path("saved"), {.model = &sharded, .optimizer = &optimizer});
  });
  run_ranks(2, [&](World& world) { convert(world, "saved", "by-two"); });
  run_ranks(1, [&](World& world) {
    auto net = make_net();
    auto sharded = shard(*net, world);
    AdamW before(sharded, {.state_dtype = from}), after(sharded, {.state_dtype = to});
    load_checkpoint(path("saved"), {.model = &sharded, .optimizer = &before});
    const Values expected = converted(values_of(before), to);
    Values by_one;
    convert(world, "saved", "by-one", &by_one);
    expect_same(by_one, expected);
    load_checkpoint(path("by-two"), {.model = &sharded, .optimizer = &after});
    expect_same(values_of(after), expected);
  });
}

}  // namespace
}  // namespace fsdp
