// Misuse that would silently train the wrong thing is an error that says what to do.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <sstream>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_models::make_gpt;
using torch::Tensor;

void with_sharded_gpt(const std::function<void(testing_models::TestModel&, ShardedModel&, World&)>& body) {
  run_ranks(1, [&](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    body(model, sharded, world);
  });
}

TEST(Guards, AnOptimizerOverTheModulesOwnParametersIsAnError) {
  with_sharded_gpt([](auto& model, auto&, auto&) {
    model.loss(0).backward();
    torch::optim::SGD optimizer(model.module->parameters(), 0.1);
    EXPECT_THAT(message_of([&] { optimizer.step(); }), AllOf(HasSubstr("gradient"), HasSubstr("fsdp::AdamW(sharded)")));
  });
}

TEST(Guards, ClippingTheModulesOwnParametersIsAnError) {
  with_sharded_gpt([](auto& model, auto&, auto&) {
    model.loss(0).backward();
    EXPECT_THAT(message_of([&] { torch::nn::utils::clip_grad_norm_(model.module->parameters(), 1.0); }),
                HasSubstr("sharded.clip_grad_norm_()"));
  });
}

TEST(Guards, GivingAShardedParameterAnotherFormIsAnError) {
  with_sharded_gpt([](auto& model, auto&, auto&) {
    torch::NoGradGuard no_grad;
    auto parameter = model.module->parameters()[0];
    const auto refused = AllOf(HasSubstr("other memory or another shape"), HasSubstr("parameter.copy_(values)"));
    EXPECT_THAT(message_of([&] { parameter.resize_({1}); }), refused);
    EXPECT_THAT(message_of([&] { parameter.t_(); }), refused);
  });
}

// Initialises itself from its first batch, as in Glow (https://arxiv.org/abs/1807.03039).
struct ActNormImpl : torch::nn::Module {
  ActNormImpl() : scale(register_parameter("scale", torch::ones({4}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    if (!initialised) {
      torch::NoGradGuard no_grad;
      scale.set_data(1 / x.std(0));
      initialised = true;
    }
    return x * scale;
  }

  torch::Tensor scale;
  bool initialised = false;
};

TEST(Guards, InitialisationInTheFirstForwardIsAnErrorThatSaysToRunItBefore) {
  run_ranks(2, [](World& world) {
    const torch::Tensor x = testing_models::values_for(0, {5, 4});
    ActNormImpl late, early;
    auto sharded_late = shard(late, world);
    EXPECT_THAT(message_of([&] { late.forward(x); }),
                AllOf(HasSubstr("set_data"), HasSubstr("run one forward before fsdp::shard")));
    early.forward(x);
    auto sharded_early = shard(early, world);
    EXPECT_TRUE(torch::equal(early.forward(x), x * (1 / x.std(0))));
  });
}

TEST(Guards, ReadingTheBytesOfAShardedParameterIsAnError) {
  with_sharded_gpt([](auto& model, auto&, auto&) {
    auto parameter = model.module->parameters()[0];
    const auto refused = AllOf(HasSubstr("bytes of a sharded parameter"), HasSubstr("full_parameters()"));
    EXPECT_THAT(message_of([&] { parameter.template data_ptr<float>(); }), refused);
    EXPECT_THAT(message_of([&] { parameter.template const_data_ptr<float>(); }), refused);
    model.loss(0).backward();
    EXPECT_THAT(message_of([&] { parameter.template data_ptr<float>(); }), refused);
  });
}

// Operators of a user: one whose schema hides that it writes, and one that only reads.
Tensor scale_secretly(const Tensor& x) {
  std::for_each_n(const_cast<float*>(x.const_data_ptr<float>()), x.numel(), [](float& element) { element *= 2; });
  return torch::ones({});
}
Tensor first_element(const Tensor& x) { return torch::full({}, *x.const_data_ptr<float>()); }
TORCH_LIBRARY(fsdp_guards, library) {
  library.def("scale_secretly(Tensor x) -> Tensor", scale_secretly);
  library.def("first_element(Tensor x) -> Tensor", first_element);
}

Tensor call(const char* name, const Tensor& x) {
  const auto operation = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  return operation.typed<Tensor(const Tensor&)>().call(x);
}

TEST(Guards, AWriteThatASchemaHidesIsExplainedBeforeItEndsTheRank) {
  const auto result = fsdp::testing::run_ranks_to_end(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    call("fsdp_guards::scale_secretly", model.module->parameters()[0]);
  });
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ::testing::ContainsRegex("fsdp rank [01]/2 unit=[a-z0-9.]*\\] fsdp_guards::scale_secretly "
                                                      "wrote to a full parameter"));
}

// A custom function that reads a parameter's bytes, in one of three ways.
struct ReadsBytes : torch::autograd::Function<ReadsBytes> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x, const std::string& how) {
    if (how == "operator") return call("fsdp_guards::first_element", x);
    const Tensor read = how == "copy" ? x.clone() : x;
    return torch::full({}, *read.const_data_ptr<float>());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
    return {Tensor(), Tensor()};
  }
};

TEST(Guards, AFunctionThatReadsBytesIsToldOfOperatorsAndCopiesWhichWork) {
  with_sharded_gpt([](auto& model, auto&, auto&) {
    const Tensor parameter = model.module->parameters()[0];
    EXPECT_THAT(message_of([&] { ReadsBytes::apply(parameter, "pointer"); }),
                AllOf(HasSubstr("torch::autograd::Function"), HasSubstr("TORCH_LIBRARY"), HasSubstr("clone()")));
    const float expected = parameter.clone().flatten()[0].template item<float>();
    EXPECT_EQ(ReadsBytes::apply(parameter, "operator").template item<float>(), expected);
    EXPECT_EQ(ReadsBytes::apply(parameter, "copy").template item<float>(), expected);
  });
}

// Values that are undivided, or of this rank alone, would pass for the gradient.
TEST(Guards, TheBytesOfAGradientAreRefusedUntilItsSumHasEnded) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    AdamW optimizer(sharded, {.lr = 0});
    const auto gradient = [&] { return sharded.parameters()[0].piece.grad(); };
    const auto refused = AllOf(HasSubstr("bytes of a piece's gradient"), HasSubstr("piece.grad().clone()"));
    const auto expect_refused = [&] {
      EXPECT_THAT(message_of([&] { gradient().const_data_ptr<float>(); }), refused);
      EXPECT_THAT(message_of([&] { gradient().data_ptr<float>(); }), refused);
      const Tensor accessed = gradient();
      EXPECT_THAT(message_of([&] { (accessed.accessor<float, 1>()); }), refused);
    };
    const auto expect_readable = [&] {
      const Tensor copy = gradient().clone();
      const auto* bytes = gradient().const_data_ptr<float>();
      EXPECT_TRUE(std::equal(bytes, bytes + copy.numel(), copy.const_data_ptr<float>()));
    };
    const std::vector<std::function<void()>> ends{[&] { gradient().clone(); },
                                                  [&] { sharded.clip_grad_norm_(std::numeric_limits<double>::max()); },
                                                  [&] { optimizer.step(); }};
    for (const auto& end : ends) {
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        model.loss(micro_batch).backward();
        expect_refused();
      }
      end();
      EXPECT_EQ(message_of([&] { gradient().const_data_ptr<float>(); }), "no error");
      expect_readable();
      sharded.zero_grad();
    }
    EXPECT_EQ(message_of([&] { sharded.parameters()[0].piece.const_data_ptr<float>(); }), "no error");
  });
}

TEST(Guards, TheBytesOfAGradientThatNothingDividesCanBeRead) {
  with_sharded_gpt([](auto& model, auto& sharded, auto&) {
    model.loss(0).backward();
    const auto read = [&] { sharded.parameters()[0].piece.grad().template const_data_ptr<float>(); };
    EXPECT_EQ(message_of(read), "no error");
    sharded.zero_grad();
    sharded.set_gradient_divisor(2);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      model.loss(0).backward();
      EXPECT_THAT(message_of(read), HasSubstr("bytes of a piece's gradient"));
    }
    sharded.parameters()[0].piece.grad().clone();
    EXPECT_EQ(message_of(read), "no error");
  });
}

// The parameter would have to be full while its shards change.
TEST(Guards, AnOperatorThatWritesAPieceAndTakesAParameterIsAnError) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt();
    auto sharded = shard(*model.module, world);
    torch::NoGradGuard no_grad;
    Tensor piece = sharded.shards()[0];
    const Tensor before = piece.clone(), parameter = model.module->parameters()[0].flatten().slice(0, 0, piece.numel());
    EXPECT_THAT(message_of([&] { piece.copy_(parameter); }),
                AllOf(HasSubstr("aten::copy_ writes a piece"), HasSubstr("parameter.clone()")));
    EXPECT_TRUE(torch::equal(piece, before));
    piece.copy_(parameter.clone());
    EXPECT_EQ(message_of([&] { model.loss(0); }), "no error");
  });
}

#ifdef FSDP_WITH_GLOO
const std::vector<const char*> kBackends{"shm", "gloo"};
#else
const std::vector<const char*> kBackends{"shm"};
#endif

class GuardsOnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GuardsOnRanks, ::testing::Values(1, 2));

TEST_P(GuardsOnRanks, ConvertingTheModuleAfterShardingSaysToConvertBefore) {
  for (const char* backend : kBackends) {
    run_ranks(GetParam(),
              [](World& world) {
                auto model = make_gpt();
                auto sharded = shard(*model.module, world);
                const auto says = AllOf(HasSubstr("module->to()"), HasSubstr("Convert before shard"),
                                        HasSubstr("save_pretrained"), Not(HasSubstr("mask")));
                EXPECT_THAT(message_of([&] { model.module->to(torch::kDouble); }), says);
                EXPECT_THAT(message_of([&] { model.module->to(torch::kMeta); }), says);
              },
              {.backend = backend});
  }
}

TEST_P(GuardsOnRanks, SavingTheModuleByTorchNamesSavePretrained) {
  for (const char* backend : kBackends) {
    run_ranks(GetParam(),
              [](World& world) {
                auto model = make_gpt();
                auto sharded = shard(*model.module, world);
                const auto save = [&] {
                  std::ostringstream file;
                  torch::save(model.module, file);
                };
                EXPECT_THAT(message_of(save),
                            AllOf(HasSubstr("torch::save"), HasSubstr("save_pretrained on every rank")));
              },
              {.backend = backend});
  }
}

TEST(Guards, AStepBetweenForwardAndBackwardIsAnError) {
  with_sharded_gpt([](auto& model, auto& sharded, auto&) {
    AdamW optimizer(sharded);
    model.loss(0).backward();
    auto loss = model.loss(1);
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_THAT(message_of([&] { loss.backward(); }), HasSubstr("Call backward before the step"));
  });
}

TEST(Guards, ABackwardAfterClippingAndBeforeZeroGradIsAnError) {
  with_sharded_gpt([](auto& model, auto& sharded, auto&) {
    model.loss(0).backward();
    sharded.clip_grad_norm_(1.0);
    EXPECT_THAT(message_of([&] { model.loss(1).backward(); }), HasSubstr("Call zero_grad() first"));
  });
}

TEST(Guards, ZeroGradForgottenAfterAStepIsAnErrorInTheNextBackward) {
  with_sharded_gpt([](auto& model, auto& sharded, auto&) {
    const auto forgets = [&](auto& optimizer) {
      model.loss(0).backward();
      optimizer.step();
      EXPECT_THAT(message_of([&] { model.loss(1).backward(); }), HasSubstr("Call zero_grad() first"));
      optimizer.zero_grad();
      EXPECT_EQ(message_of([&] { model.loss(1).backward(); }), "no error");
      optimizer.zero_grad();
    };
    AdamW fused(sharded);
    forgets(fused);
    torch::optim::SGD plain(sharded.shards(), 0.1);
    forgets(plain);
  });
}

TEST(Guards, ZeroGradOfTheModuleIsAnError) {
  with_sharded_gpt([](auto& model, auto& sharded, auto&) {
    model.loss(0).backward();
    EXPECT_THAT(message_of([&] { model.module->zero_grad(); }), HasSubstr("sharded.zero_grad()"));
    EXPECT_TRUE(sharded.shards()[0].grad().defined());
  });
}

TEST(Guards, AStepWithoutABackwardIsAnError) {
  with_sharded_gpt([](auto&, auto& sharded, auto&) {
    AdamW optimizer(sharded);
    EXPECT_THAT(message_of([&] { optimizer.step(); }), HasSubstr("Call backward first"));
    EXPECT_THAT(message_of([&] { sharded.clip_grad_norm_(1.0); }), HasSubstr("Call backward first"));
  });
}

TEST(Guards, ShardingTwiceIsAnError) {
  with_sharded_gpt([](auto& model, auto&, auto& world) {
    EXPECT_THAT(message_of([&] { shard(*model.module, world); }), HasSubstr("sharded already"));
  });
}

TEST(Guards, UseAfterTheShardedModelsEndIsAnError) {
  run_ranks(1, [](World& world) {
    auto model = make_gpt();
    { auto sharded = shard(*model.module, world); }
    EXPECT_THAT(message_of([&] { model.loss(0); }), HasSubstr("after its ShardedModel was destroyed"));
  });
}

TEST(Guards, AModelThatDiffersBetweenRanksIsAnErrorThatNamesRankAndUnit) {
  run_ranks(2, [](World& world) {
    auto model = make_gpt(3, world.rank() == 0 ? 32 : 36);
    EXPECT_THAT(message_of([&] { shard(*model.module, world); }),
                AllOf(HasSubstr("rank 1"), HasSubstr("unit="), HasSubstr("same model on every rank")));
  });
}

TEST(Guards, ARankThatRunsAnotherPartOfTheModelHasItsUnitsGathered) {
  run_ranks(2,
            [](World& world) {
              auto first = torch::ones({3}, torch::requires_grad()), second = torch::ones({3}, torch::requires_grad());
              auto sharded =
                  shard(std::vector<NamedUnit>{{"a", {{"first", first}}, {}}, {"b", {{"second", second}}, {}}}, world);
              (world.rank() == 0 ? first : second).sum().backward();
              for (const auto& parameter : sharded.parameters()) EXPECT_TRUE(parameter.piece.grad().defined());
            },
            {.backend = "gloo"});
}

TEST(Guards, OptionsThatThisVersionDoesNotRunAreErrors) {
  run_ranks(1, [](World& world) {
    auto model = make_gpt();
    EXPECT_THAT(message_of([&] { shard(*model.module, world, {.shard_group_size = 2}); }), HasSubstr("divisor"));
    EXPECT_THAT(
        message_of([&] { shard(*model.module, world, {.strategy = Strategy::NoShard, .shard_group_size = 3}); }),
        HasSubstr("every rank"));
    EXPECT_THAT(message_of([&] { shard(*model.module, world, {.mixed_precision = {.param_dtype = torch::kDouble}}); }),
                AllOf(HasSubstr("param_dtype Double"), HasSubstr("float16")));
    EXPECT_THAT(message_of([&] { shard(*model.module, world, {.buffers = 1}); }), HasSubstr("at least 2"));
  });
}

}  // namespace
}  // namespace fsdp
