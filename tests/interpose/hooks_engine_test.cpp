// Our engine of autograd in front of another one, as Python's is.
#include "interpose/hooks_engine.h"

#include <gmock/gmock.h>

#include "interpose/parameters.h"
#include "interpose/saved_tensors.h"

namespace fsdp::interpose {
namespace {

using torch::autograd::Engine;

struct CountedHooks final : torch::autograd::SavedVariableHooks {
  explicit CountedHooks(int& count) { ++count; }
  void call_pack_hook(const torch::Tensor& tensor) override { kept = tensor.tensor_data(); }
  torch::Tensor call_unpack_hook() override { return kept; }
  torch::Tensor kept;
};

// Counts, and has hooks of its own while they are pushed.
class OtherEngine final : public Engine {
 public:
  static Engine& get() { return other(); }
  static OtherEngine& other() {
    static OtherEngine& engine = *new OtherEngine;
    return engine;
  }
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    ++backwards;
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return pushed ? std::make_unique<CountedHooks>(packed) : nullptr;
  }

  int backwards = 0, packed = 0;
  bool pushed = false;
};

class Keeper final : public SavedTensorKeeper {
 public:
  SavedTensorHooks hooks() override { return std::make_unique<CountedHooks>(packed); }
  int packed = 0;
};

// The other engine is the default when a test begins, and is gone afterwards.
class HooksEngineBeforeAnother : public ::testing::Test {
 protected:
  HooksEngineBeforeAnother() {
    OtherEngine& other = OtherEngine::other();
    other.backwards = other.packed = 0;
    torch::autograd::set_default_engine_stub(OtherEngine::get);
  }
  ~HooksEngineBeforeAnother() override {
    OtherEngine::other().pushed = false;
    torch::autograd::set_default_engine_stub(Engine::get_base_engine);
    install_saved_tensor_engine();
  }

  OtherEngine& other_ = OtherEngine::other();
  Keeper keeper_;
  const torch::Tensor x_ = torch::ones({3}, torch::requires_grad());
};

TEST_F(HooksEngineBeforeAnother, LeavesItTheBackwardsAndKeepsWhatIsSaved) {
  torch::Tensor loss;
  {
    const SavedTensorsScope scope(&keeper_);
    loss = x_.exp().sum();
  }
  loss.backward();
  EXPECT_EQ(keeper_.packed, 1);
  EXPECT_EQ(other_.backwards, 1);
  EXPECT_TRUE(torch::equal(x_.grad(), x_.exp()));
}

TEST_F(HooksEngineBeforeAnother, AsksItForHooksOutsideOfScopes) {
  other_.pushed = true;
  install_saved_tensor_engine();
  const auto watcher = std::make_shared<Keeper>();
  watch_saved_tensors(watcher);
  const torch::Tensor outside = x_.exp();
  torch::Tensor inside;
  {
    const SavedTensorsScope scope(&keeper_);
    inside = x_.exp();
  }
  other_.pushed = false;
  const torch::Tensor watched = x_.exp();
  watch_saved_tensors(nullptr);
  EXPECT_EQ(other_.packed, 1);
  EXPECT_EQ(keeper_.packed, 1);
  EXPECT_EQ(watcher->packed, 1);
  (outside + inside + watched).sum().backward();
  EXPECT_TRUE(torch::equal(x_.grad(), x_.exp() * 3));
}

}  // namespace
}  // namespace fsdp::interpose
