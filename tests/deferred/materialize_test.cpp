// A deferred construction, made real, has the bits of an ordinary one, and leaves the generator in the same state.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "deferred/constructions.h"
#include "support/allocated_memory.h"
#include "support/message_of.h"

namespace fsdp {
namespace {

using fsdp::testing::AllocatedMemory;
using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace testing_models;
namespace nn = torch::nn;

class DeferredConstruction : public ::testing::TestWithParam<Construction> {};
INSTANTIATE_TEST_SUITE_P(Kinds, DeferredConstruction, ::testing::ValuesIn(constructions()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DeferredConstruction, HasTheBitsOfAnOrdinaryOne) {
  torch::manual_seed(42);
  const auto expected = GetParam().make();
  const torch::Tensor state = generator_state();
  torch::manual_seed(42);
  const auto found = deferred_init(GetParam().make);
  const NamedState before = state_of(*found);
  EXPECT_TRUE(std::ranges::any_of(before, [](const auto& one) { return is_deferred(one.second); }));
  materialize(*found);
  EXPECT_THAT(differing(state_of(*expected), state_of(*found)), IsEmpty());
  EXPECT_TRUE(torch::equal(generator_state(), state));
}

TEST(Materialize, MakesOneTensorAtATime) {
  constexpr int64_t kWidth = 256, kMatrix = kWidth * kWidth * 4;
  AllocatedMemory memory;
  torch::manual_seed(1);
  auto layers = deferred_init([] {
    nn::Sequential layers;
    for (int i = 0; i < 12; ++i) layers->push_back(nn::Linear(nn::LinearOptions(kWidth, kWidth).bias(false)));
    for (auto& weight : layers->parameters()) nn::init::normal_(weight);
    return layers;
  });
  EXPECT_LT(memory.most_bytes(), kMatrix / 2);
  EXPECT_TRUE(is_deferred(layers->parameters()[0]));
  materialize(*layers);
  EXPECT_FALSE(is_deferred(layers->parameters()[0]));
  // All of them, and one that draws the numbers which the second initialisation writes over.
  EXPECT_LT(memory.most_bytes(), 13 * kMatrix + kMatrix / 2);
}

TEST(Materialize, GivesBytesToMembersThatAreNoBuffers) {
  struct Masked : nn::Module {
    Masked() : mask(torch::ones({4, 4}).tril()) { register_parameter("scale", torch::ones({4})); }
    torch::Tensor mask;
  };
  const auto module = deferred_init([] { return std::make_shared<Masked>(); });
  EXPECT_TRUE(is_deferred(module->mask));
  materialize(*module);
  EXPECT_TRUE(torch::equal(module->mask, torch::ones({4, 4}).tril()));
}

TEST(Materialize, KeepsWhatSharesMemoryShared) {
  struct Halves : nn::Module {
    Halves() {
      const auto both = torch::randn({2, 5});
      register_buffer("first", both[0]);
      register_buffer("second", both[1]);
      register_buffer("both", both);
    }
  };
  const auto module = deferred_init([] { return std::make_shared<Halves>(); });
  materialize(*module);
  auto buffers = module->named_buffers();
  buffers["second"].fill_(3);
  EXPECT_TRUE(torch::equal(buffers["both"][1], torch::full({5}, 3.f)));
}

TEST(Deferred, CanBeInitialisedAgainAndFrozenBehindTheScope) {
  const auto make = [] { return nn::Sequential(nn::Linear(5, 5), nn::Linear(5, 5)); };
  const auto initialise = [](nn::Sequential& layers) {
    layers->apply([](nn::Module& module) {
      torch::NoGradGuard no_grad;
      if (auto* linear = module.as<nn::Linear>()) linear->weight.normal_().mul_(3), linear->bias.fill_(2);
    });
    layers->parameters()[0].set_requires_grad(false);
    layers->to(torch::kCPU);
  };
  torch::manual_seed(3);
  auto expected = make();
  initialise(expected);
  const torch::Tensor state = generator_state();
  torch::manual_seed(3);
  auto found = deferred_init(make);
  initialise(found);
  materialize(*found);
  EXPECT_THAT(differing(state_of(*expected), state_of(*found)), IsEmpty());
  EXPECT_TRUE(torch::equal(generator_state(), state));
}

TEST(Deferred, ModulesDrawOneAfterTheOther) {
  torch::manual_seed(3);
  nn::Linear first(5, 5), second(6, 6), third(7, 7);
  const torch::Tensor state = generator_state();
  torch::manual_seed(3);
  auto a = deferred_init([] { return nn::Linear(5, 5); });
  auto b = deferred_init([] { return nn::Linear(6, 6); });
  materialize(*b);
  nn::Linear c(7, 7);
  materialize(*a);
  EXPECT_THAT(differing(state_of(*first), state_of(*a)), IsEmpty());
  EXPECT_THAT(differing(state_of(*second), state_of(*b)), IsEmpty());
  EXPECT_THAT(differing(state_of(*third), state_of(*c)), IsEmpty());
  EXPECT_TRUE(torch::equal(generator_state(), state));
}

TEST(Deferred, ASeedAfterwardsIsKept) {
  torch::manual_seed(3);
  auto module = deferred_init([] { return nn::Linear(5, 5); });
  torch::manual_seed(3);
  const torch::Tensor state = generator_state();
  materialize(*module);
  EXPECT_TRUE(torch::equal(generator_state(), state));
  nn::Linear expected(5, 5);
  EXPECT_THAT(differing(state_of(*expected), state_of(*module)), IsEmpty());
}

class DeferredErrors : public ::testing::Test {
 protected:
  ~DeferredErrors() override { torch::manual_seed(0); }  // nobody waits for numbers any more
};

TEST_F(DeferredErrors, NumbersThatAreDrawnTooEarly) {
  auto module = deferred_init([] { return nn::Linear(5, 5); });
  torch::rand({3});
  EXPECT_THAT(message_of<Error>([&] { materialize(*module); }),
              AllOf(HasSubstr("random numbers were drawn"), HasSubstr("torch::manual_seed")));
}

TEST_F(DeferredErrors, AForward) {
  auto module =
      deferred_init([] { return nn::Sequential(nn::Linear(5, 5), nn::LayerNorm(nn::LayerNormOptions({5}))); });
  EXPECT_THAT(message_of<Error>([&] {
                module->forward(torch::ones({2, 5}));
              }),
              AllOf(HasSubstr("addmm"), HasSubstr("fsdp::materialize")));
  EXPECT_THAT(message_of<Error>([&] {
                module[1]->as<nn::LayerNorm>()->forward(torch::ones({2, 5}));
              }),
              HasSubstr("layer_norm"));
  EXPECT_THAT(message_of<Error>([&] { (void)module->parameters()[0].sum().item<float>(); }), HasSubstr("aten::sum"));
  EXPECT_THAT(message_of([&] { module->parameters()[0].data_ptr<float>(); }), HasSubstr("fsdp::materialize"));
  EXPECT_THAT(message_of<Error>([&] { module->to(torch::kBFloat16); }), HasSubstr("aten::_to_copy"));
}

TEST_F(DeferredErrors, WhatCannotBeDeferredNamesTheOperator) {
  const auto message = [](const std::function<void()>& make) {
    return message_of([&] { deferred_init([&] { make(); }); });
  };
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(1);
  EXPECT_THAT(message([&] { torch::rand({3}, generator); }), HasSubstr("a generator of its own"));
  EXPECT_THAT(message([] { torch::tensor({1.f, 2.f}).normal_(); }), HasSubstr("aten::normal_"));
  EXPECT_THAT(message([] { torch::zeros({3}).data_ptr<float>(); }), HasSubstr("outside of an operator"));
  EXPECT_THAT(message([] { torch::empty({3}).resize_({4}); }), HasSubstr("aten::resize_"));
  EXPECT_THAT(message([] { torch::empty({3}).copy_(torch::ones({4})); }), HasSubstr("aten::copy_"));
  auto other = deferred_init([] { return torch::ones({3}); });
  EXPECT_THAT(message([&] { torch::zeros({3}).add_(other); }), HasSubstr("another deferred_init"));
}

}  // namespace
}  // namespace fsdp
