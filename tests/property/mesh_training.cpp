#include "property/mesh_training.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

namespace fsdp::property {

namespace {

using Facts = std::vector<MeshFact>;

torch::Tensor number_tensor(double value) { return torch::tensor(value, torch::kFloat64); }

at::Generator cpu_generator() { return at::detail::getDefaultCPUGenerator(); }

uint64_t draw_step_number() {
  at::Generator generator = cpu_generator();
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

// Each once.
std::vector<torch::Tensor> parameters_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> parameters;
  std::set<at::TensorImpl*> known;
  for (const torch::Tensor& parameter : module.parameters()) {
    if (known.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
  }
  return parameters;
}

// The optimizer of a sharded model, or of a plain one.
class MeshOptimizer {
 public:
  MeshOptimizer(const MeshCase& drawn, const torch::nn::Module& module, ShardedModel* sharded) {
    if (sharded != nullptr && drawn.adamw) {
      own_ = std::make_unique<AdamW>(*sharded, AdamWOptions{.lr = 1e-2});
    } else if (sharded != nullptr) {
      own_ = std::make_unique<SGD>(*sharded, SGDOptions{.lr = 0.1, .momentum = 0.9});
    } else if (drawn.adamw) {
      plain_ = std::make_unique<torch::optim::AdamW>(parameters_of(module), torch::optim::AdamWOptions(1e-2));
    } else {
      plain_ = std::make_unique<torch::optim::SGD>(parameters_of(module), torch::optim::SGDOptions(0.1).momentum(0.9));
    }
  }

  Optimizer* own() { return own_.get(); }
  void step() {
    if (own_) {
      own_->step();
      own_->zero_grad();
    } else {
      plain_->step();
      plain_->zero_grad();
    }
  }

 private:
  std::unique_ptr<PieceOptimizer> own_;
  std::unique_ptr<torch::optim::Optimizer> plain_;
};

// The training on one layout after the other. What is different on ranks and on one process is left to the functions.
struct Phases {
  const MeshCase& drawn;
  int64_t next_number = 0;  // of a micro-batch
  int steps_done = 0;

  struct Functions {
    std::function<void()> evaluate;
    std::function<void(const std::string& place)> call;
    std::function<void(const std::string& place)> clip;
    std::function<void()> step;
  };

  void run(int phase, const Functions& functions) {
    const MeshLayout& layout = drawn.layouts[static_cast<size_t>(phase)];
    torch::manual_seed(drawn.seed + 100 + static_cast<uint64_t>(phase));
    for (int step = 0; step < drawn.steps; ++step, ++steps_done) {
      if (drawn.evaluates) functions.evaluate();
      for (int call = 0; call < drawn.calls; ++call) {
        functions.call(fmt::format("step {}, call {}", steps_done, call));
        next_number += int64_t{layout.micro_batches} * layout.data;
      }
      if (drawn.clip > 0) functions.clip(fmt::format("step {}", steps_done));
      functions.step();
    }
  }
};

std::string loss_name(const std::string& place, int data_rank) {
  return fmt::format("loss of {}, data rank {}", place, data_rank);
}
std::string norm_name(const std::string& place) { return fmt::format("norm of {}", place); }
std::string output_name(int step, int micro_batch) {
  return fmt::format("output {} before step {}", micro_batch, step);
}
std::string weight_name(const std::string& parameter, int step) {
  return fmt::format("{} after {} steps", parameter, step);
}
std::string generator_name(int step) { return fmt::format("the generator after {} steps", step); }

// One layout on ranks.
class OnMesh {
 public:
  OnMesh(const MeshCase& drawn, const MeshLayout& layout, World& world)
      : drawn_(drawn),
        layout_(layout),
        mesh_(world, sizes_of(layout)),
        alone_(world.split(world.rank())),
        pipeline_(pipeline_blocks(drawn.model, along("tensor")), along("pipeline"), layout.pipeline_options) {
    freeze_blocks(drawn.model, pipeline_.stage());
    if (layout.strategy) sharded_.emplace(shard_stage());
    optimizer_.emplace(drawn, pipeline_.stage(), sharded_ ? &*sharded_ : nullptr);
  }

  Checkpoint checkpoint(int step) {
    return {.model = &*sharded_, .optimizer = optimizer_->own(), .step = step, .mesh = mesh_};
  }
  Phases::Functions functions(const Phases& phases, Facts& facts) {
    return {.evaluate = [&] { evaluate(phases, facts); },
            .call = [&](const std::string& place) { call(phases, place, facts); },
            .clip =
                [&](const std::string& place) {
                  const double norm =
                      sharded_ ? sharded_->clip_grad_norm_(drawn_.clip) : pipeline_.clip_grad_norm_(drawn_.clip);
                  facts.push_back({norm_name(place), number_tensor(norm)});
                },
            .step = [&] { optimizer_->step(); }};
  }
  void add_weights(int step, Facts& facts) {
    std::map<std::string, ParameterDivision> divisions;
    for (const auto& module : pipeline_.stage().named_modules()) {
      const auto* divided = dynamic_cast<const DividedModule*>(module.value().get());
      if (divided == nullptr) continue;
      for (const auto& one : divided->divisions()) divisions[module.key() + "." + one.parameter] = one;
    }
    for (const auto& [name, value] : weights()) {
      const auto division = divisions.find(name);
      facts.push_back({weight_name(drawn_.model.first_name_of(name), step), value.detach().clone(),
                       division == divisions.end() ? std::nullopt : std::optional(division->second)});
    }
  }

 private:
  static std::vector<std::pair<std::string, int>> sizes_of(const MeshLayout& layout) {
    std::vector<std::pair<std::string, int>> sizes;
    for (const std::string& axis : layout.axes) sizes.emplace_back(axis, layout.size_of(axis));
    return sizes;
  }
  // A world of one rank for an axis that the mesh does not have.
  World along(const std::string& axis) const {
    return std::ranges::count(layout_.axes, axis) > 0 ? mesh_[axis] : alone_;
  }
  ShardedModel shard_stage() {
    const Options options{.strategy = *layout_.strategy, .units = layout_.units};
    if (layout_.shard_along_mesh) return shard(pipeline_.stage(), mesh_, "data", options);
    World data = along("data");
    return shard(pipeline_.stage(), data, options);
  }
  NamedTensors weights() {
    if (sharded_) return sharded_->full_state();
    NamedTensors all;
    for (const auto& one : pipeline_.stage().named_parameters()) all.emplace_back(one.key(), one.value());
    return all;
  }
  bool is_first() const { return along("pipeline").rank() == 0; }
  bool is_last() const { return along("pipeline").rank() + 1 == along("pipeline").size(); }
  Tensors inputs_from(int64_t number, int stride) const {
    Tensors inputs;
    for (int i = 0; i < layout_.micro_batches && is_first(); ++i)
      inputs.push_back(tokens_for(drawn_.model, number + int64_t{i} * stride));
    return inputs;
  }
  Tensors targets_from(int64_t number, int stride) const {
    Tensors targets;
    for (int i = 0; i < layout_.micro_batches && is_last(); ++i)
      targets.push_back(targets_for(drawn_.model, number + int64_t{i} * stride));
    return targets;
  }
  void evaluate(const Phases& phases, Facts& facts) {
    pipeline_.stage().eval();
    const Tensors outputs = pipeline_.forward(inputs_from(phases.next_number, 1));
    pipeline_.stage().train();
    for (size_t i = 0; i < outputs.size(); ++i)
      facts.push_back({output_name(phases.steps_done, static_cast<int>(i)), outputs[i]});
  }
  void call(const Phases& phases, const std::string& place, Facts& facts) {
    const int data_rank = along("data").rank();
    const int64_t first = phases.next_number + data_rank;
    const double loss = pipeline_.step(inputs_from(first, layout_.data), targets_from(first, layout_.data), mesh_loss);
    facts.push_back({loss_name(place, data_rank), number_tensor(loss)});
  }

  const MeshCase& drawn_;
  const MeshLayout& layout_;
  Mesh mesh_;
  World alone_;
  Pipeline pipeline_;
  std::optional<ShardedModel> sharded_;
  std::optional<MeshOptimizer> optimizer_;
};

// The same on one process.
class Alone {
 public:
  Alone(const MeshCase& drawn, const World& alone, std::map<std::string, torch::Tensor>& facts)
      : drawn_(drawn), alone_(alone), facts_(facts), whole_(drawn.model, alone) {
    if (drawn.is_sharded()) sharded_.emplace(shard(*whole_.root, alone_, {.strategy = Strategy::NoShard}));
    optimizer_.emplace(drawn, *whole_.root, sharded_ ? &*sharded_ : nullptr);
  }

  void begin(const MeshLayout& layout) {
    layout_ = &layout;
    if (sharded_) sharded_->set_gradient_divisor(layout.data);
  }
  Phases::Functions functions(const Phases& phases) {
    return {
        .evaluate = [&] { with_step_number([&](uint64_t number) { evaluate(phases, number); }); },
        .call =
            [&](const std::string& place) { with_step_number([&](uint64_t number) { call(phases, place, number); }); },
        .clip =
            [&](const std::string& place) {
              facts_[norm_name(place)] = number_tensor(sharded_ ? sharded_->clip_grad_norm_(drawn_.clip)
                                                                : clip_grad_norm_(*whole_.root, drawn_.clip));
            },
        .step = [&] { optimizer_->step(); }};
  }
  void add_weights(int step) {
    NamedTensors weights;
    if (sharded_) weights = sharded_->full_state();
    for (const auto& one : whole_.root->named_parameters()) {
      if (!sharded_) weights.emplace_back(one.key(), one.value());
    }
    for (const auto& [name, value] : weights)
      facts_[weight_name(drawn_.model.first_name_of(name), step)] = value.detach().clone();
  }

 private:
  // A pipeline's call draws one number, and leaves the generator as it is then.
  template <typename Run>
  static void with_step_number(Run run) {
    const uint64_t number = draw_step_number();
    const torch::Tensor state = cpu_generator().get_state();
    run(number);
    cpu_generator().set_state(state);
  }
  void evaluate(const Phases& phases, uint64_t step_number) {
    const torch::NoGradGuard no_gradients;
    whole_.root->eval();
    for (int i = 0; i < layout_->micro_batches; ++i) {
      const torch::Tensor tokens = tokens_for(drawn_.model, phases.next_number + i);
      facts_[output_name(phases.steps_done, i)] = whole_.forward(tokens, step_number, i);
    }
    whole_.root->train();
  }
  void call(const Phases& phases, const std::string& place, uint64_t step_number) {
    std::vector<double> sums(static_cast<size_t>(layout_->data));  // by data rank
    for (int batch = 0; batch < layout_->micro_batches * layout_->data; ++batch) {
      const int64_t number = phases.next_number + batch;
      const torch::Tensor scores = whole_.forward(tokens_for(drawn_.model, number), step_number, batch);
      const torch::Tensor loss = mesh_loss(scores, targets_for(drawn_.model, number));
      sums[static_cast<size_t>(batch % layout_->data)] += loss.item<double>();
      (loss / layout_->micro_batches).backward();
    }
    for (int rank = 0; rank < layout_->data; ++rank)
      facts_[loss_name(place, rank)] = number_tensor(sums[static_cast<size_t>(rank)] / layout_->micro_batches);
  }

  const MeshCase& drawn_;
  World alone_;
  std::map<std::string, torch::Tensor>& facts_;
  WholeModel whole_;
  const MeshLayout* layout_ = nullptr;
  std::optional<ShardedModel> sharded_;
  std::optional<MeshOptimizer> optimizer_;
};

}  // namespace

std::vector<MeshFact> train_on_mesh(const MeshCase& drawn, World& world, const std::filesystem::path& folder) {
  Facts facts;
  Phases phases{drawn};
  for (int phase = 0; phase < std::ssize(drawn.layouts); ++phase) {
    torch::manual_seed(drawn.seed + static_cast<uint64_t>(phase));  // other first values, which a checkpoint replaces
    OnMesh on_mesh(drawn, drawn.layouts[static_cast<size_t>(phase)], world);
    if (phase > 0) load_checkpoint(folder, on_mesh.checkpoint(0));
    phases.run(phase, on_mesh.functions(phases, facts));
    on_mesh.add_weights(phases.steps_done, facts);
    facts.push_back({generator_name(phases.steps_done), cpu_generator().get_state()});
    if (phase + 1 < std::ssize(drawn.layouts)) save_checkpoint(folder, on_mesh.checkpoint(phases.steps_done));
  }
  return facts;
}

std::map<std::string, torch::Tensor> train_alone(const MeshCase& drawn, const World& alone) {
  std::map<std::string, torch::Tensor> facts;
  Phases phases{drawn};
  torch::manual_seed(drawn.seed);
  Alone training(drawn, alone, facts);
  for (int phase = 0; phase < std::ssize(drawn.layouts); ++phase) {
    training.begin(drawn.layouts[static_cast<size_t>(phase)]);
    phases.run(phase, training.functions(phases));
    training.add_weights(phases.steps_done);
    facts[generator_name(phases.steps_done)] = cpu_generator().get_state();
  }
  return facts;
}

}  // namespace fsdp::property
