// A sharded parameter stays the user's tensor; its gradients and hooks work as autograd's do.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/variable.h>

#include "interpose/parameters.h"
#include "support/message_of.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_FALSE(torch::autograd::impl::get_autograd_meta(weight)->grad_.defined());  // handed over, not kept
}

TEST(InterposedParameters, EndWithTheirOwners) {
  auto recorder = std::make_unique<Recorder>();
  auto weight = leaf({3, 4});
  auto unit = std::make_unique<Unit>(*recorder, 0, std::vector{weight});
  weight.square().sum().backward();
  const c10::weak_intrusive_ptr<at::TensorImpl> parameter(weight.getIntrusivePtr());
  const c10::weak_intrusive_ptr<UnitStorage> storage(unit->storage);
  unit.reset();
  weight.reset();
  recorder.reset();
  EXPECT_TRUE(parameter.expired());
  EXPECT_TRUE(storage.expired());
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

// It would leave the sum of the gradients as it is.
TEST_F(Interpose, ZeroGradOnTheModuleIsAnErrorWithAdvice) {
  torch::nn::Linear module(4, 3);
  Unit unit(recorder, 2, {module->weight, module->bias});
  torch::optim::SGD optimizer(module->parameters(), 0.1);
  const auto advice = AllOf(HasSubstr("unit=unit2"), HasSubstr("parameter0"), HasSubstr("sharded.zero_grad()"));
  EXPECT_THAT(message_of([&] { module->zero_grad(); }), advice);
  EXPECT_THAT(message_of([&] { module->zero_grad(/*set_to_none=*/false); }), advice);
  EXPECT_THAT(message_of([&] { optimizer.zero_grad(); }), advice);
}

TEST_F(Interpose, AChangedParameterPutsWhatAutogradSavedOutOfDate) {
  const auto x = ramp({2, 4}).set_requires_grad(true);
  auto loss = torch::linear(x, weight).sum();
  first.parameters[0].mark_changed();
  EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("modified by an inplace operation"));
}

}  // namespace
}  // namespace fsdp::interpose
