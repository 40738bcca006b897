// Which operators the listener is told of, with which units, and what it can refuse.
#include <gmock/gmock.h>

#include "interpose/parameters.h"
#include "support/message_of.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(Interpose, AFrequentOperatorIsSeenWithItsUnitAndComputesTheSameBits) {
  const auto plain = torch::linear(input, ramp({3, 4}), ramp({3}));
  EXPECT_TRUE(same_bits(plain, torch::linear(input, weight, bias).detach()));
  EXPECT_TRUE(same_bits(torch::embedding(ramp({3, 4}), torch::tensor({2, 0})),
                        torch::embedding(weight, torch::tensor({2, 0})).detach()));
  EXPECT_TRUE(
      same_bits(torch::layer_norm(ramp({5, 3}), {3}, ramp({3})), torch::layer_norm(ramp({5, 3}), {3}, bias).detach()));
  EXPECT_TRUE(same_bits(torch::mm(input, ramp({2, 4}).t()), torch::mm(input, other.t()).detach()));
  EXPECT_THAT(recorder.touches, ElementsAre("aten::linear 0", "aten::embedding 0", "aten::layer_norm 0", "aten::mm 1"));
}

TEST_F(Interpose, AnyOtherOperatorIsSeenThroughTheBox) {
  EXPECT_TRUE(same_bits(ramp({3, 4}) + 1, (weight + 1).detach()));
  EXPECT_TRUE(same_bits(ramp({3, 4}) * ramp({3, 4}), torch::mul(ramp({3, 4}), weight).detach()));
  EXPECT_THAT(recorder.touches, ElementsAre("aten::add 0", "aten::mul 0"));
}

TEST_F(Interpose, AnOperatorOverTwoUnitsIsOneTouchOfBoth) {
  EXPECT_TRUE(same_bits(torch::cat({ramp({3, 4}), ramp({2, 4})}), torch::cat({weight, other}).detach()));
  torch::linear(weight, other);
  EXPECT_THAT(recorder.events, ElementsAre("aten::cat 0,1", "end 0,1", "aten::linear 0,1", "end 0,1"));
}

TEST_F(Interpose, AUnitThatAnOperatorTakesTwiceIsNamedOnce) {
  torch::cat({weight, weight, other});
  torch::stack({weight[0], weight[1]});
  EXPECT_THAT(recorder.touches, ElementsAre("aten::cat 0,1", "aten::stack 0"));
}

TEST_F(Interpose, AParameterInAListThatMayHoldNothingIsSeen) {
  EXPECT_ANY_THROW(at::index(input, {std::nullopt, std::optional<at::Tensor>(bias)}));  // not an index
  EXPECT_THAT(recorder.events, ElementsAre("aten::index 0", "end 0"));
}

TEST_F(Interpose, OperatorsOnOtherTensorsAreNotSeen) {
  const auto result = torch::linear(input, weight, bias);
  recorder.touches.clear();
  (result * 2 + input.sum()).relu();
  EXPECT_THAT(recorder.touches, IsEmpty());
}

TEST_F(Interpose, AViewIsNotSeen) {
  weight.view({-1});
  weight.t();
  weight.transpose(0, 1);
  weight.detach();
  weight[0];
  weight.slice(0, 1, 2);
  weight.reshape({2, 6});
  weight.unsqueeze(0).expand({2, 3, 4});
  weight.split(1);
  weight.unbind();
  weight.contiguous();
  EXPECT_THAT(recorder.touches, IsEmpty());
}

TEST_F(Interpose, AnOperatorOnAViewIsSeen) {
  EXPECT_TRUE(same_bits(ramp({3, 4})[1].sum(), weight[1].sum().detach()));
  EXPECT_TRUE(same_bits(ramp({3, 4}).view({-1}) * 2, (weight.view({-1}) * 2).detach()));
  weight.split(1)[2].sum();
  weight.detach().sum();
  weight.data().sum();
  EXPECT_THAT(recorder.touches, ElementsAre("aten::sum 0", "aten::mul 0", "aten::sum 0", "aten::sum 0", "aten::sum 0"));
}

TEST_F(Interpose, AViewThatHasToCopyIsSeenAsTheCopy) {
  EXPECT_TRUE(same_bits(ramp({3, 4}).t().reshape({-1}), weight.t().reshape({-1}).detach()));
  EXPECT_EQ(recorder.touches.size(), 1u);
  EXPECT_TRUE(same_bits(ramp({3, 4}).t().contiguous(), weight.t().contiguous().detach()));
  EXPECT_EQ(recorder.touches.size(), 2u);
  EXPECT_TRUE(same_bits(ramp({3, 4}).to(torch::kDouble), weight.to(torch::kDouble).detach()));
  EXPECT_EQ(recorder.touches.size(), 3u);
}

TEST_F(Interpose, AnInPlaceWriteIsReportedAsWritten) {
  torch::NoGradGuard no_grad;
  weight.mul_(2);
  weight[0].fill_(7);
  weight.copy_(other[0]);
  torch::add_out(bias, torch::ones({3}), 1);
  weight.data().zero_();
  EXPECT_THAT(recorder.touches,
              ElementsAre("aten::mul_ 0 writes 0", "aten::fill_ 0 writes 0", "aten::copy_ 0,1 writes 0",
                          "aten::add 0 writes 0", "aten::zero_ 0 writes 0"));
  EXPECT_TRUE(same_bits(first.memory.slice(0, 0, 12), torch::zeros({12})));  // and it is the unit's memory
}

TEST_F(Interpose, AWriteOverAListNamesTheFirstUnitThatIsWritten) {
  torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> parameters = {weight, bias, other};
  at::_foreach_mul_(parameters, 2.0);
  std::vector<torch::Tensor> targets = {torch::zeros({3, 4}), torch::zeros({3}), torch::zeros({2, 4})};
  at::_foreach_add_(targets, parameters);
  at::_foreach_add_(std::vector<torch::Tensor>{weight}, std::vector<torch::Tensor>{other[0]});
  EXPECT_THAT(recorder.touches, ElementsAre("aten::_foreach_mul_ 0,1 writes 0", "aten::_foreach_add_ 0,1",
                                            "aten::_foreach_add_ 0,1 writes 0"));
  EXPECT_TRUE(same_bits(ramp({2, 4}) * 2, second.memory.view({2, 4})));
}

TEST_F(Interpose, FreezingAParameterIsNoWrite) {
  weight.requires_grad_(false);
  EXPECT_FALSE(weight.requires_grad());
  EXPECT_THAT(recorder.touches, IsEmpty());
}

TEST_F(Interpose, SetDataIsReportedAsAWriteBeforeItHappens) {
  recorder.refuse = "writes";
  EXPECT_THAT(message_of([&] { weight.set_data(ramp({3, 4})); }), HasSubstr("refused: set_data (module->to()"));
  EXPECT_NO_THROW(first.parameters[0].check_attached("test"));
}

TEST_F(Interpose, ConvertingTheModuleIsReportedAsAWriteBeforeItHappens) {
  torch::nn::Linear module(4, 3);
  Unit unit(recorder, 2, {module->weight, module->bias});
  recorder.refuse = "writes";
  EXPECT_THAT(message_of([&] { module->to(torch::kDouble); }), HasSubstr("refused: set_data (module->to()"));
  EXPECT_EQ(module->weight.scalar_type(), torch::kFloat);
  EXPECT_NO_THROW(unit.parameters[0].check_attached("test"));
}

TEST_F(Interpose, AParameterWhoseDataWasReplacedIsAnError) {
  weight.set_data(ramp({3, 4}));
  const auto advice = AllOf(HasSubstr("parameter0"), HasSubstr("unit0"), HasSubstr("Convert the module first"));
  EXPECT_THAT(message_of([&] { first.parameters[0].check_attached("step"); }), AllOf(advice, HasSubstr("step: ")));
  EXPECT_THAT(message_of([&] { weight.mutable_grad(); }), advice);
  EXPECT_NO_THROW(first.parameters[1].check_attached("step"));
}

TEST_F(Interpose, AnOuterOperatorIsOneTouch) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 3));
  const auto sequence = ramp({5, 2, 4});
  const auto plain = std::get<0>(lstm->forward(sequence)).detach();
  Unit unit(recorder, 2, lstm->parameters());
  EXPECT_TRUE(same_bits(plain, std::get<0>(lstm->forward(sequence)).detach()));
  EXPECT_THAT(recorder.events, ElementsAre("aten::lstm 2", "end 2"));
}

TEST_F(Interpose, ABackwardTouchesTheUnitsWhoseParametersItReads) {
  const auto x = ramp({2, 4}).set_requires_grad(true);
  const auto loss = torch::layer_norm(torch::linear(x, weight), {3}, bias).sum();
  recorder.touches.clear();
  loss.backward();
  EXPECT_THAT(recorder.touches, ElementsAre("aten::native_layer_norm_backward 0", "aten::mm 0"));
}

TEST_F(Interpose, AnOperatorEndsEvenWhenItsKernelThrows) {
  EXPECT_THROW(torch::mm(weight, ramp({7, 7})), c10::Error);   // unboxed
  EXPECT_THROW(torch::add(weight, ramp({7, 7})), c10::Error);  // boxed
  EXPECT_THAT(recorder.events, ElementsAre("aten::mm 0", "end 0", "aten::add 0", "end 0"));
  torch::sum(weight);  // the key is seen again
  EXPECT_THAT(recorder.touches, ElementsAre("aten::mm 0", "aten::add 0", "aten::sum 0"));
}

TEST_F(Interpose, AnErrorOfTheListenerReachesTheCallerAndTheOperatorDoesNotRun) {
  torch::NoGradGuard no_grad;
  recorder.refuse = "everything";
  EXPECT_THROW(torch::linear(input, weight), Error);
  EXPECT_THROW(weight.zero_(), Error);
  EXPECT_THAT(recorder.events, ElementsAre("aten::linear 0", "aten::zero_ 0 writes 0"));  // what never began has no end
  EXPECT_TRUE(same_bits(ramp({12}), first.memory.slice(0, 0, 12)));
  recorder.refuse = "";
  EXPECT_NO_THROW(torch::linear(input, weight));
}

TEST_F(Interpose, AModelThatRefusesEndsTheModelsThatBegan) {
  Recorder refusing;
  auto theirs = leaf({5, 4});
  Unit unit(refusing, 0, {theirs});
  torch::cat({other, theirs});
  EXPECT_THAT(recorder.events, ElementsAre("aten::cat 1", "end 1"));
  EXPECT_THAT(refusing.events, ElementsAre("aten::cat 0", "end 0"));
  refusing.refuse = "everything";
  EXPECT_THROW(torch::cat({other, theirs}), Error);
  EXPECT_THROW(torch::linear(other, theirs), Error);
  EXPECT_THAT(recorder.events, ElementsAre("aten::cat 1", "end 1", "aten::cat 1", "end 1", "aten::linear 1", "end 1"));
  EXPECT_THAT(refusing.events, ElementsAre("aten::cat 0", "end 0", "aten::cat 0", "aten::linear 0"));
}

TEST_F(Interpose, BytesOutsideOfAnOperatorAreRefusedWithTheUnitsName) {
  const auto refused =
      AllOf(HasSubstr("unit=unit0"), HasSubstr("outside of an operator"), HasSubstr("Open sharded.full_parameters()"));
  EXPECT_THAT(message_of([&] { weight.data_ptr<float>(); }), refused);
  EXPECT_THAT(message_of([&] { weight.const_data_ptr<float>(); }), refused);
  const auto view = weight[1];
  EXPECT_THAT(message_of([&] { view.accessor<float, 1>(); }), refused);
  torch::sum(weight);
  EXPECT_THAT(message_of([&] { weight.data_ptr<float>(); }), refused);
  EXPECT_THAT(message_of([&] { other.data_ptr<float>(); }), HasSubstr("unit=unit1"));
}

TEST_F(Interpose, BytesThatAreAllowedAreThoseOfTheMemoryBoundLast) {
  first.storage->allow_access();
  EXPECT_EQ(weight.data_ptr<float>(), first.memory.data_ptr<float>());
  EXPECT_EQ(bias.data_ptr<float>(), first.memory.data_ptr<float>() + 12);
  const auto elsewhere = torch::full({15}, 3.0f);
  first.storage->bind(elsewhere.data_ptr());
  EXPECT_EQ(weight.data_ptr<float>(), elsewhere.data_ptr<float>());
  EXPECT_EQ(torch::sum(bias).item<float>(), 9.0f);
  first.storage->unbind();
  EXPECT_THAT(message_of([&] { weight.data_ptr<float>(); }), HasSubstr("unit=unit0"));
}

TEST_F(Interpose, UseAfterTheListenerIsGoneIsAnErrorThatSaysSo) {
  auto loss = torch::linear(input, weight).sum();
  recorder.link->listener = nullptr;
  const auto gone = AllOf(HasSubstr("unit=unit0"), HasSubstr("after its ShardedModel was destroyed"));
  EXPECT_THAT(message_of([&] { torch::linear(input, weight); }), gone);
  EXPECT_THAT(message_of([&] { weight + 1; }), gone);
  EXPECT_THAT(message_of([&] { torch::cat({input, weight[0].view({1, 4})}); }), gone);
  EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("whose ShardedModel was destroyed"));
  EXPECT_THAT(recorder.gradients, IsEmpty());
}

}  // namespace
}  // namespace fsdp::interpose
