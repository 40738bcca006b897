// The end of a backward is told once, whatever happens within it.
#include <gmock/gmock.h>

#include <thread>

#include "interpose/parameters.h"
#include "support/message_of.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::message_of;

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
