// Saved tensors that lie in a store: autograd's bits, each storage once, views as views, changes in place found.
#include "interpose/stored_activations.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>

#include "interpose/parameters.h"
#include "support/message_of.h"
#include "support/scratch_directory.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A store, and what it was asked.
class Asked final : public memory::ByteStore {
 public:
  explicit Asked(std::shared_ptr<memory::ByteStore> store) : store_(std::move(store)) {}
  std::shared_ptr<memory::StoredBytes> put(const torch::Tensor& bytes) override {
    ++puts;
    return store_->put(bytes);
  }
  int puts = 0;

 private:
  std::shared_ptr<memory::ByteStore> store_;
};

class StoredActivationsTest : public ::testing::TestWithParam<const char*> {
 protected:
  StoredActivationsTest() { with({}); }

  void with(StoredActivations::Rules rules) {
    const bool in_files = std::string(GetParam()) == "files";
    store_ = std::make_shared<Asked>(
        in_files ? memory::file_store(std::make_shared<const memory::OffloadFolder>(scratch_.path(), number_++))
                 : memory::host_store());
    count_ = std::make_shared<ActivationCount>(1);
    keeper_ = storing_keeper(std::make_shared<StoredActivations>(store_, std::move(rules), count_),
                             counting_keeper(count_, 0));
  }
  // Of a function whose tensors are stored.
  torch::Tensor stored(const std::function<torch::Tensor()>& function) const {
    const SavedTensorsScope scope(keeper_.get());
    return function();
  }
  // That its gradient by x has autograd's bits, and how often something was put.
  int puts_of(const std::function<torch::Tensor(const torch::Tensor& x)>& function) {
    const torch::Tensor values = torch::randn({8, 6});
    const torch::Tensor x = values.clone().requires_grad_(), plain = values.clone().requires_grad_();
    store_->puts = 0;
    stored([&] { return function(x); }).sum().backward();
    function(plain).sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), plain.grad()));
    EXPECT_EQ(count_->bytes().elsewhere_now, 0);
    EXPECT_EQ(count_->bytes().now[0], 0);
    return store_->puts;
  }
  int64_t stored_bytes() const { return count_->bytes().elsewhere_now; }

  ScratchDirectory scratch_;
  int number_ = 0;
  std::shared_ptr<Asked> store_;
  std::shared_ptr<ActivationCount> count_;
  std::shared_ptr<SavedTensorKeeper> keeper_;
};

INSTANTIATE_TEST_SUITE_P(Places, StoredActivationsTest, ::testing::Values("files", "host"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(StoredActivationsTest, GiveTheBitsOfAutograd) {
  EXPECT_EQ(puts_of([](const auto& x) { return x.exp().sin().tanh(); }), 2);             // each one's, or its input
  EXPECT_EQ(puts_of([](const auto& x) { return torch::softmax(x * 2, 1).pow(2); }), 1);  // one storage
  EXPECT_GE(puts_of([](const auto& x) { return torch::dropout(x.exp(), 0.5, false).pow(3); }), 1);
  EXPECT_EQ(puts_of([](const auto& x) { return (x * 2).to(torch::kBFloat16).exp().to(torch::kFloat32); }), 1);
  EXPECT_EQ(puts_of([](const auto& x) { return x * 2; }), 0);  // keeps nothing
}

// A projection's three parts, transposed as heads are, and its whole.
TEST_P(StoredActivationsTest, AreStoredOnceAndComeBackAsViews) {
  EXPECT_EQ(puts_of([](const auto& x) {
              const torch::Tensor all = (x * 3).view({4, 2, 6});
              const auto parts = all.chunk(3, 2);
              return parts[0].transpose(0, 1) * parts[1].transpose(0, 1) + parts[2].transpose(0, 1).exp() +
                     all.transpose(0, 1).narrow(2, 1, 2) * all.transpose(0, 1).narrow(2, 0, 2);
            }),
            2);
}

TEST_P(StoredActivationsTest, ServeRetainedGraphsAndSecondDerivatives) {
  const torch::Tensor values = torch::randn({8, 6});
  const auto twice = [&](torch::Tensor x, bool stores) {
    const auto function = [&] { return (x * 2).exp().sin().sum(); };
    const torch::Tensor loss = stores ? stored(function) : function();
    const auto first = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    const auto again = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0];
    EXPECT_TRUE(same_bits(first.detach(), again));
    return torch::autograd::grad({first.pow(2).sum()}, {x})[0];
  };
  EXPECT_TRUE(same_bits(twice(values.clone().requires_grad_(), true), twice(values.clone().requires_grad_(), false)));
  EXPECT_EQ(stored_bytes(), 0);
}

TEST_P(StoredActivationsTest, AreGivenUpWithTheGraph) {
  stored([] { return leaf({8, 6}).exp().sin().sum(); });
  EXPECT_EQ(store_->puts, 1);  // what exp makes and sin takes
  EXPECT_EQ(stored_bytes(), 0);
  const torch::Tensor alive = stored([] { return leaf({8, 6}).exp().sin().sum(); });
  EXPECT_EQ(stored_bytes(), 8 * 6 * 4);
  EXPECT_EQ(count_->bytes().elsewhere_at_peak, 8 * 6 * 4);
}

TEST_P(StoredActivationsTest, ThatWereChangedInPlaceAreAnError) {
  const torch::Tensor x = leaf({8, 6});
  torch::Tensor middle;
  const torch::Tensor loss = stored([&] {
    middle = x * 2;
    return middle.exp().sum() + middle.sin().sum();
  });
  middle.add_(1);
  EXPECT_THAT(message_of<c10::Error>([&] { loss.backward(); }),
              AllOf(HasSubstr("modified by an inplace operation: [Float [8, 6]] is at version 1; expected version 0"),
                    HasSubstr("clone()")));
}

// Between the saves of two nodes: the second has other bytes, and the first is lost.
TEST_P(StoredActivationsTest, AreStoredAgainWhereTheyWereChangedBetween) {
  const torch::Tensor values = torch::randn({8, 6});
  const auto both = [](const torch::Tensor& x) {
    const torch::Tensor y = x * 2, first = y.sin().sum();
    {
      const torch::NoGradGuard no_grad;
      y.add_(1);
    }
    return std::pair(first, y.cos().sum());
  };
  const torch::Tensor x = values.clone().requires_grad_(), plain = values.clone().requires_grad_();
  std::pair<torch::Tensor, torch::Tensor> losses;
  stored([&] {
    losses = both(x);
    return losses.first;
  });
  EXPECT_EQ(store_->puts, 2);
  losses.second.backward();
  both(plain).second.backward();
  EXPECT_TRUE(same_bits(x.grad(), plain.grad()));
  EXPECT_THAT(message_of<c10::Error>([&] { losses.first.backward(); }), HasSubstr("modified by an inplace operation"));
}

// The gates of an LSTM: parts of one storage whose versions are counted apart, each changed in place and then saved.
TEST_P(StoredActivationsTest, AreStoredAgainForAPartThatCountsItsVersionsAlone) {
  EXPECT_GE(puts_of([](const auto& x) {
              auto gates = (x * 2).unsafe_chunk(3, 1);
              const torch::Tensor in = gates[0].sigmoid_(), cell = gates[1].tanh_(), out = gates[2].sigmoid_();
              gates.clear();
              return in * cell * out;
            }),
            3);
}

TEST_P(StoredActivationsTest, ComeFromTheTensorItselfWhileSomebodyHasIt) {
  const torch::Tensor x = leaf({8, 6});
  torch::Tensor middle;
  const torch::Tensor loss = stored([&] {
    middle = x * 2;
    return middle.sin().sum();
  });
  middle.variable_data().fill_(0.5);  // which autograd does not hear of
  loss.backward();
  EXPECT_TRUE(x.grad().allclose(torch::full({8, 6}, 2 * std::cos(0.5F))));
}

TEST_P(StoredActivationsTest, AreWorthwhileTensorsAlone) {
  const torch::Tensor buffer = torch::randn({8, 6}), data = torch::randn({100, 6});
  with({.least_bytes = 8 * 6 * 4, .staying = {buffer}});
  EXPECT_EQ(puts_of([&](const auto& x) { return x * buffer; }), 0);
  EXPECT_EQ(puts_of([&](const auto& x) { return x * data.narrow(0, 8, 8); }), 0);  // of a larger set
  EXPECT_EQ(puts_of([](const auto& x) { return x.narrow(0, 0, 7).exp(); }), 0);    // too small
  EXPECT_EQ(puts_of([](const auto& x) { return x.pow(2); }), 0);                   // a leaf with a gradient
  EXPECT_EQ(puts_of([](const auto& x) { return x.exp(); }), 1);
}

// What a block's second run saves is wanted at once.
TEST_P(StoredActivationsTest, AreNotThoseOfABackward) {
  const torch::Tensor x = leaf({8, 6});
  const torch::Tensor loss = stored([&] { return x.exp().sum(); });
  store_->puts = 0;
  const SavedTensorsScope scope(keeper_.get());
  const auto gradient = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  gradient.sum().backward();
  EXPECT_EQ(store_->puts, 0);
}

}  // namespace
}  // namespace fsdp::interpose
