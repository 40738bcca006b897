// What the interposed parameters tell their listener, without an engine behind it: each unit's bytes lie in the test's
// own memory.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <map>
#include <thread>

#include "fsdp/error.h"
#include "interpose/backward_watch.h"
#include "interpose/parameter.h"
#include "support/message_of.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Writes down what it is told: "aten::add_ 0 writes 0" for an operator, "end 0" for its end.
class Recorder final : public Listener {
 public:
  void operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) override {
    note();
    std::string touch = fmt::format("{} {}", operation, fmt::join(units, ","));
    if (written) touch += fmt::format(" writes {}", *written);
    touches.push_back(touch);
    events.push_back(touch);
    if (refuse == "everything" || (refuse == "writes" && written)) throw Error("refused: " + touch);
    for (int unit : units) storages.at(unit)->allow_access();
  }

  void operator_ends(std::span<const int> units) noexcept override {
    events.push_back(fmt::format("end {}", fmt::join(units, ",")));
    for (int unit : units) storages.at(unit)->forbid_access();
  }

  void gradient_arrives(int unit, int parameter, torch::Tensor gradient) override {
    note();
    gradients[{unit, parameter}].push_back(gradient.clone());
  }

  void backward_ends(int task) override {
    if (watch.close(task)) ++ends;
  }

  void note() {
    if (watch.note().abandoned) ++abandoned;
  }

  std::shared_ptr<Link> link = std::make_shared<Link>(Link{this});
  BackwardWatch watch{link};
  std::map<int, UnitStorage*> storages;
  std::string refuse;
  std::vector<std::string> touches;
  std::vector<std::string> events;
  std::map<std::pair<int, int>, std::vector<torch::Tensor>> gradients;
  int ends = 0;       // of backwards
  int abandoned = 0;  // backwards that ended without their callback
};

// Parameters that keep their values and lie, one after the other, in memory of this unit.
class Unit {
 public:
  Unit(Recorder& recorder, int id, const std::vector<torch::Tensor>& tensors) {
    int64_t numel = 0;
    for (const auto& tensor : tensors) numel += tensor.numel();
    memory = torch::zeros({numel});
    storage = c10::make_intrusive<UnitStorage>(id, fmt::format("unit{}", id), memory.nbytes(), recorder.link);
    recorder.storages[id] = storage.get();
    int64_t offset = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      torch::Tensor values = memory.as_strided(tensors[i].sizes(), tensors[i].strides(), offset);
      values.copy_(tensors[i].detach());
      parameters.emplace_back(tensors[i], fmt::format("parameter{}", i), storage, offset, tensors[i].strides().vec(),
                              static_cast<int>(i));
      offset += tensors[i].numel();
    }
    storage->bind(memory.data_ptr());
    storage->forbid_access();
  }

  torch::Tensor memory;
  c10::intrusive_ptr<UnitStorage> storage;
  std::vector<AttachedParameter> parameters;
};

torch::Tensor ramp(at::IntArrayRef sizes) { return torch::arange(torch::zeros(sizes).numel()).reshape(sizes) * 0.25; }
torch::Tensor leaf(at::IntArrayRef sizes) { return ramp(sizes).set_requires_grad(true); }

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) { return a.sizes() == b.sizes() && torch::equal(a, b); }

class Interpose : public ::testing::Test {
 protected:
  Recorder recorder;
  torch::Tensor weight = leaf({3, 4}), bias = leaf({3}), other = leaf({2, 4});
  Unit first{recorder, 0, {weight, bias}}, second{recorder, 1, {other}};
  torch::Tensor input = ramp({2, 4});
};

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

TEST_F(Interpose, AnAttachedParameterStaysTheUsersTensor) {
  auto channels_last =
      torch::arange(48).to(torch::kFloat).reshape({2, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  channels_last.set_requires_grad(true);
  auto frozen = ramp({5});
  const auto* before = channels_last.unsafeGetTensorImpl();
  const auto strides = channels_last.strides().vec();
  const auto plain = channels_last.detach().clone();
  Unit unit(recorder, 2, {channels_last, frozen});
  EXPECT_EQ(channels_last.unsafeGetTensorImpl(), before);
  EXPECT_EQ(channels_last.strides().vec(), strides);
  EXPECT_TRUE(channels_last.requires_grad() && channels_last.is_leaf());
  EXPECT_FALSE(frozen.requires_grad());
  EXPECT_TRUE(same_bits(plain, channels_last.detach().clone()));
}

TEST_F(Interpose, GradientsArriveOnceEachWithAutogradsBits) {
  auto plain_weight = leaf({3, 4}), plain_bias = leaf({3});
  auto loss = [&](const torch::Tensor& w, const torch::Tensor& b) {
    return (torch::linear(input, w, b).sin().sum() + w.square().sum());  // the weight is used twice
  };
  loss(plain_weight, plain_bias).backward();
  loss(weight, bias).backward();
  ASSERT_EQ(recorder.gradients.size(), 2u);
  ASSERT_EQ((recorder.gradients[{0, 0}].size()), 1u);
  ASSERT_EQ((recorder.gradients[{0, 1}].size()), 1u);
  EXPECT_TRUE(same_bits(plain_weight.grad(), recorder.gradients[{0, 0}][0]));
  EXPECT_TRUE(same_bits(plain_bias.grad(), recorder.gradients[{0, 1}][0]));
  EXPECT_FALSE(weight.mutable_grad().defined());  // handed over, not kept
}

struct CountingHook final : torch::autograd::PostAccumulateGradHook {
  explicit CountingHook(int& calls) : calls(calls) {}
  void operator()(const torch::Tensor&) override { ++calls; }
  int& calls;
};

TEST_F(Interpose, HooksOnAParameterStillRunWheneverTheyWereRegistered) {
  auto parameter = leaf({4});
  int accumulated = 0;
  parameter.register_hook([](const torch::Tensor& gradient) { return gradient * 2; });
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<CountingHook>(accumulated));
  Unit unit(recorder, 2, {parameter});
  parameter.register_hook([](const torch::Tensor& gradient) { return gradient + 1; });
  int on_bias = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(bias, std::make_unique<CountingHook>(on_bias));
  (parameter.sum() + bias.sum()).backward();
  ASSERT_EQ((recorder.gradients[{2, 0}].size()), 1u);
  EXPECT_TRUE(same_bits(torch::full({4}, 3.0f), recorder.gradients[{2, 0}][0]));
  EXPECT_EQ(accumulated, 1);
  EXPECT_EQ(on_bias, 1);
}

// Passes its input on and gives it no gradient.
struct Blocks : torch::autograd::Function<Blocks> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
    return {torch::Tensor()};
  }
};

TEST_F(Interpose, AGradientThatIsUndefinedDoesNotArrive) {
  int accumulated = 0, plain_accumulated = 0;
  auto plain = leaf({3, 4});
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<CountingHook>(accumulated));
  torch::autograd::impl::set_post_acc_grad_hooks(plain, std::make_unique<CountingHook>(plain_accumulated));
  Blocks::apply(weight).sum().backward();
  Blocks::apply(plain).sum().backward();
  EXPECT_THAT(recorder.gradients, IsEmpty());
  EXPECT_EQ(accumulated, plain_accumulated);
}

TEST_F(Interpose, AParameterFrozenSinceTheForwardGetsNoGradient) {
  auto plain = leaf({3, 4});
  auto plain_loss = plain.sum(), loss = weight.sum();
  plain.set_requires_grad(false);
  weight.set_requires_grad(false);
  plain_loss.backward();
  loss.backward();
  EXPECT_FALSE(plain.grad().defined());  // what LibTorch's own accumulator does
  EXPECT_THAT(recorder.gradients, IsEmpty());
}

TEST_F(Interpose, AskingForTheGradientOfAParameterIsAnErrorWithAdvice) {
  weight.sum().backward();
  EXPECT_THAT(message_of([&] { (void)weight.grad(); }),
              AllOf(HasSubstr("unit=unit0"), HasSubstr("parameter0"), HasSubstr("sharded.clip_grad_norm_()"),
                    HasSubstr("fsdp::AdamW(sharded)")));
}

TEST_F(Interpose, ZeroGradOnTheModuleWorks) {
  torch::nn::Linear module(4, 3);
  Unit unit(recorder, 2, {module->weight, module->bias});
  EXPECT_NO_THROW(module->zero_grad());
  module(input).sum().backward();
  EXPECT_NO_THROW(module->zero_grad());
  EXPECT_EQ((recorder.gradients[{2, 0}].size()), 1u);
}

TEST_F(Interpose, AChangedParameterPutsWhatAutogradSavedOutOfDate) {
  const auto x = ramp({2, 4}).set_requires_grad(true);
  auto loss = torch::linear(x, weight).sum();
  first.parameters[0].mark_changed();
  EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("modified by an inplace operation"));
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

// `weight` applied to a detached input, run again inside the backward, as activation checkpointing does.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight) {
    context->save_for_backward({x});
    context->saved_data["weight"] = weight;
    return torch::linear(x, weight).relu();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    torch::AutoGradMode enabled(true);
    auto x = context->get_saved_variables()[0].detach().set_requires_grad(true);
    torch::linear(x, context->saved_data["weight"].toTensor()).relu().backward(gradients[0]);
    return {x.grad(), torch::Tensor()};
  }
};

class BackwardEnds : public Interpose {
 protected:
  torch::Tensor square = leaf({4, 4}), late = leaf({4, 4});
  Unit third{recorder, 2, {square}}, fourth{recorder, 3, {late}};
  torch::Tensor x = ramp({2, 4}).set_requires_grad(true);
};

TEST_F(BackwardEnds, OnceForAPlainBackward) {
  auto loss = torch::linear(torch::linear(x, square), weight).sum();
  EXPECT_FALSE(recorder.watch.open());
  int ends_inside = -1;
  x.register_hook([&](const torch::Tensor&) {
    EXPECT_TRUE(recorder.watch.open());
    ends_inside = recorder.ends;
  });
  loss.backward();
  EXPECT_EQ(ends_inside, 0);
  EXPECT_EQ(recorder.ends, 1);
  EXPECT_FALSE(recorder.watch.open());
  EXPECT_EQ(recorder.watch.note(), (BackwardWatch::Note{}));
}

TEST_F(BackwardEnds, OnceForEachOfTwoBackwards) {
  auto loss = torch::linear(x, weight).sum(), next = torch::linear(x, square).sum();
  loss.backward();
  EXPECT_EQ(recorder.ends, 1);
  next.backward();
  EXPECT_EQ(recorder.ends, 2);
  EXPECT_EQ(recorder.abandoned, 0);
}

TEST_F(BackwardEnds, OnceAndLastWhenBackwardsAreNested) {
  auto hidden = torch::linear(x, square);
  int ends_inside = -1;
  hidden.register_hook([&](const torch::Tensor&) { ends_inside = recorder.ends; });
  auto loss = torch::linear(Checkpoint::apply(Checkpoint::apply(hidden, late), late), weight).sum();
  loss.backward();
  EXPECT_EQ(ends_inside, 0);  // after both inner backwards
  EXPECT_EQ(recorder.ends, 1);
  EXPECT_EQ((recorder.gradients[{3, 0}].size()), 2u);
  EXPECT_EQ((recorder.gradients[{2, 0}].size()), 1u);
  EXPECT_FALSE(recorder.watch.open());
}

TEST_F(BackwardEnds, OnceWhenTheFirstThingThatHappensIsNested) {
  auto loss = Checkpoint::apply(torch::linear(x, square), late).sum();
  loss.backward();
  EXPECT_EQ(recorder.ends, 1);
}

void throw_in_the_backward_of(const torch::Tensor& tensor) {
  tensor.register_hook([](const torch::Tensor&) { throw std::runtime_error("from a hook"); });
}

TEST_F(BackwardEnds, NotForOneThatThrewWhichIsReportedOnceAtTheNextUse) {
  throw_in_the_backward_of(x);
  auto loss = torch::linear(x, weight).sum();
  EXPECT_THROW(loss.backward(), std::runtime_error);
  EXPECT_EQ(recorder.ends, 0);
  EXPECT_TRUE(recorder.watch.open());
  EXPECT_EQ(recorder.watch.note(), (BackwardWatch::Note{.abandoned = true}));
  EXPECT_EQ(recorder.watch.note(), (BackwardWatch::Note{}));
  EXPECT_FALSE(recorder.watch.open());
}

TEST_F(BackwardEnds, AsUsualInABackwardThatFollowsOneThatThrew) {
  auto fails = ramp({2, 4}).set_requires_grad(true);
  throw_in_the_backward_of(fails);
  EXPECT_THROW(torch::linear(fails, weight).sum().backward(), std::runtime_error);
  torch::linear(x, weight).sum().backward();
  EXPECT_EQ(recorder.abandoned, 1);
  EXPECT_EQ(recorder.ends, 1);
}

TEST_F(BackwardEnds, AsUsualWithNothingBetweenABackwardThatThrewAndTheNext) {
  auto fails = ramp({2, 4}).set_requires_grad(true);
  throw_in_the_backward_of(fails);
  auto first_loss = torch::linear(fails, weight).sum(), second_loss = torch::linear(x, weight).sum();
  EXPECT_THROW(first_loss.backward(), std::runtime_error);
  second_loss.backward();
  EXPECT_EQ(recorder.ends, 1);
  EXPECT_FALSE(recorder.watch.open());
}

TEST_F(BackwardEnds, OnlyForTheThreadThatRunsIt) {
  std::optional<BackwardWatch::Note> elsewhere;
  x.register_hook([&](const torch::Tensor&) {
    EXPECT_EQ(recorder.watch.note(), (BackwardWatch::Note{.inside = true}));
    std::thread([&] { elsewhere = recorder.watch.note(); }).join();
  });
  torch::linear(x, weight).sum().backward();
  EXPECT_EQ(elsewhere, (BackwardWatch::Note{}));
  EXPECT_EQ(recorder.ends, 1);
}

TEST_F(BackwardEnds, NowhereWhenTheListenerGoesMeanwhile) {
  x.register_hook([&](const torch::Tensor&) { recorder.link->listener = nullptr; });
  torch::linear(x, square.detach()).sum().backward();
  EXPECT_TRUE(recorder.watch.open());  // noted, and told to nobody
  EXPECT_EQ(recorder.ends, 0);
}

}  // namespace
}  // namespace fsdp::interpose
