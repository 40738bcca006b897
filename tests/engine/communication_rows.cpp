#include "engine/communication_rows.h"

#include "base/names.h"
#include "support/experts.h"
#include "support/gan.h"
#include "support/models.h"
#include "support/repeated_models.h"
#include "support/scripted_model.h"
#include "support/tied_models.h"
#include "support/unusual_models.h"

namespace fsdp::testing_models {

namespace {

using Make = std::function<TestModel()>;
// The backwards of one step.
using Backwards = std::function<void(const TestModel& model, ShardedModel& sharded, int64_t micro_batch)>;

void one(const TestModel& model, ShardedModel&, int64_t b) { model.loss(b).backward(); }

void two(const TestModel& model, ShardedModel& sharded, int64_t b) {
  one(model, sharded, b);
  one(model, sharded, b);
}

void two_of_one_graph(const TestModel& model, ShardedModel&, int64_t b) {
  const torch::Tensor loss = model.loss(b);
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
}

void three_of_which_two_stay_local(const TestModel& model, ShardedModel& sharded, int64_t b) {
  {
    const NoSync scope = sharded.no_sync();
    two(model, sharded, b);
  }
  one(model, sharded, b);
}

CommunicationReport operator-(CommunicationReport after, const CommunicationReport& before) {
  after.gathers -= before.gathers;
  after.foreseen_gathers -= before.foreseen_gathers;
  after.reductions -= before.reductions;
  after.late_gradients -= before.late_gradients;
  after.all_reductions -= before.all_reductions;
  after.wait_seconds -= before.wait_seconds;
  return after;
}

CommunicationReport operator+(const CommunicationReport& one, const CommunicationReport& other) {
  return one - (CommunicationReport{} - other);
}

constexpr int kSteps = 3;

int64_t number_of(int step, const World& world) { return step * world.size() + world.rank(); }
int64_t step_of(int64_t micro_batch) { return micro_batch / kTableRanks; }

CommunicationReport third_step(const TestModel& model, ShardedModel& sharded, World& world,
                               const Backwards& backwards) {
  AdamW optimizer(sharded);
  CommunicationReport before;
  for (int step = 0; step < kSteps; ++step) {
    before = sharded.communication();
    backwards(model, sharded, number_of(step, world));
    optimizer.step();
    optimizer.zero_grad();
  }
  return sharded.communication() - before;
}

TableRow row(std::string name, const Make& make, const Backwards& backwards = one, bool planned = true) {
  return {std::move(name),
          [=](World& world, const Options& options, const RowObserver& observer) {
            const TestModel model = make();
            auto sharded = shard(*model.module, world, options);
            observer.begins(sharded);
            const CommunicationReport report = third_step(model, sharded, world, backwards);
            observer.ends(sharded);
            return report;
          },
          planned};
}

// A step of the discriminator, then one of the generator.
CommunicationReport third_step_of_a_gan(World& world, const Options& options, const RowObserver& observer) {
  Gan gan;
  auto generator = shard(*gan.generator, world, options), discriminator = shard(*gan.discriminator, world, options);
  for (ShardedModel* model : {&generator, &discriminator}) observer.begins(*model);
  AdamW of_generator(generator), of_discriminator(discriminator);
  CommunicationReport before;
  const auto both = [&] { return generator.communication() + discriminator.communication(); };
  for (int step = 0; step < kSteps; ++step) {
    before = both();
    gan.discriminator_loss(number_of(step, world)).backward();
    of_discriminator.step();
    of_discriminator.zero_grad();
    gan.generator_loss(number_of(step, world)).backward();
    of_generator.step();
    of_generator.zero_grad();
    of_discriminator.zero_grad();
  }
  for (ShardedModel* model : {&generator, &discriminator}) observer.ends(*model);
  return both() - before;
}

// After the runs in which TorchScript compiles it.
CommunicationReport third_step_of_a_script(World& world, const Options& options, const RowObserver& observer) {
  torch::jit::Module module = make_scripted();
  const TestModel model = as_native(module);
  auto sharded = shard(module, world, options);
  observer.begins(sharded);
  warm_up(module);
  sharded.zero_grad();
  const CommunicationReport report = third_step(model, sharded, world, one);
  observer.ends(sharded);
  return report;
}

void freeze(torch::nn::Module& module, const std::vector<std::string>& patterns, bool frozen = true) {
  for (auto& parameter : module.named_parameters()) {
    if (matches_any(patterns, parameter.key())) parameter.value().requires_grad_(!frozen);
  }
}

TestModel make_five_blocks() { return make_gpt(5); }

const std::vector<std::string> kFirstBlocks{"blocks.0.*", "blocks.1.*", "blocks.2.*"};

TestModel make_frozen(const std::vector<std::string>& patterns) {
  TestModel model = make_five_blocks();
  freeze(*model.module, patterns);
  return model;
}

TestModel make_all_but_one_frozen() {
  TestModel model = make_frozen({"*"});
  freeze(*model.module, {"blocks.3.qkv.bias"}, false);
  return model;
}

TestModel make_unfrozen_in_the_third_step() {
  const TestModel model = make_frozen(kFirstBlocks);
  return {model.module, [model](int64_t b) {
            if (step_of(b) == 2) freeze(*model.module, kFirstBlocks, false);
            return model.loss(b);
          }};
}

// The whole of the model, twice, before one backward.
TestModel make_called_twice() {
  const TestModel model = make_five_blocks();
  return {model.module, [loss = model.loss](int64_t b) { return loss(b) + loss(b + 1); }};
}

TestModel make_layers_recomputed() {
  return residual_with([](Residual& net, int64_t b) {
    torch::Tensor x = residual_input(b);
    for (size_t i = 0; i < kResidualBlocks; ++i) {
      x = activation_checkpoint([&net, i](const torch::Tensor& input) { return net.layer(i, input); }, x);
    }
    return x.pow(2).mean();
  })();
}

// By a lot that all ranks draw alike.
TestModel make_layers_dropped() {
  return residual_with([](Residual& net, int64_t b) {
    const std::vector<std::vector<size_t>> kept{{0, 2}, {0, 1}, {1, 2}};
    return net.forward(residual_input(b), kept.at(step_of(b))).pow(2).mean();
  })();
}

// Each rank leaves another layer out, and the last one none: the row counts what the first rank does.
TestModel make_layers_of_some_ranks() {
  return residual_with([](Residual& net, int64_t b) {
    const std::vector<std::vector<size_t>> kept{{0, 2}, {0, 1}, {1, 2}, {0, 1, 2}};
    return net.forward(residual_input(b), kept.at(b % kTableRanks)).pow(2).mean();
  })();
}

}  // namespace

std::vector<TableRow> table_rows() {
  const auto kinds = model_kinds();
  return {row("GPT, 5 blocks, head tied to the embedding", make_five_blocks),
          row("the same, 2 micro-batches a rank", make_five_blocks, two),
          row("the same, blocks 0 to 2 frozen", [] { return make_frozen(kFirstBlocks); }),
          row("the same, unfrozen for this step", make_unfrozen_in_the_third_step),
          row("the same, all but one bias frozen", make_all_but_one_frozen),
          row("the same, called twice before backward", make_called_twice),
          row("TransformerEncoder, 3 layers", kinds[1].make),
          row("convolutions with BatchNorm, 3 stages and a head", kinds[2].make),
          row("LSTM, one unit", kinds[3].make),
          row("3 layers", make_plain_residual),
          row("the same, called 2, 3 and 1 times", make_called_several_times),
          row("the same, another forward before one backward", make_two_forwards),
          row("the same, another forward without a backward", make_forward_without_backward),
          row("the same, a graph retained and run backward twice", make_plain_residual, two_of_one_graph),
          row("the same, a gradient penalty", make_gradient_penalty),
          row("the same, each recomputed", make_layers_recomputed),
          row("the same, 3 micro-batches, 2 of them in no_sync", make_plain_residual, three_of_which_two_stay_local),
          row("the same, another layer dropped in each step", make_layers_dropped, one, /*planned=*/false),
          row("the same, another layer used on each rank", make_layers_of_some_ranks, one, /*planned=*/false),
          row("3 blocks and an input, tied within each", [] { return make_tied(Tied::Within); }),
          row("the same, tied to the first", [] { return make_tied(Tied::Across); }),
          row("4 blocks, frozen but for adapters", [] { return make_adapters(); }),
          row("3 blocks of two dtypes", make_several_dtypes),
          row("3 blocks of scalars and empty tensors, smaller than the world", make_small),
          row("3 layers, 3 heads and a gain, nested outputs", make_nested_outputs),
          row("the same, a head unused on all ranks", make_unused_on_all_ranks),
          row("the same, a gain unused on some ranks", make_unused_on_some_ranks),
          row("3 blocks of experts that the data choose", make_experts),
          row("3 convolutions, channels last", make_channels_last),
          {"TorchScript, 3 blocks, head tied to the embedding", third_step_of_a_script},
          {"GAN, 3 and 3 layers, a step of each", third_step_of_a_gan}};
}

}  // namespace fsdp::testing_models
