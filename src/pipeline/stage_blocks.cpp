#include "pipeline/stage_blocks.h"

#include "api/whole_model.h"
#include "base/error.h"
#include "fsdp/deferred_init.h"
#include "interpose/deferred_tensor.h"

namespace fsdp::pipeline {

namespace {

using torch::nn::Module;

// The root of a rank's blocks: a checkpoint finds in it how parameters are called in the whole model.
class Stage final : public Module, public BlocksOfModel {
 public:
  explicit Stage(const std::vector<PipelineBlock>& blocks) : Module("stage") {
    for (const PipelineBlock& block : blocks) blocks_.push_back(block.name);
  }
  void set_ties(const std::vector<Tie>& ties) {
    for (const Tie& tie : ties) {
      for (size_t i = 1; i < tie.copies.size(); ++i) first_names_[name_of(tie.copies[i])] = name_of(tie.copies[0]);
    }
  }
  std::vector<std::string> all_blocks() const override { return blocks_; }
  std::map<std::string, std::string> first_names() const override { return first_names_; }

 private:
  std::string name_of(const Tie::Copy& copy) const { return blocks_[copy.block] + "." + copy.parameter; }

  std::vector<std::string> blocks_;
  std::map<std::string, std::string> first_names_;
};

// Adds the module at its path: "blocks.0" is the submodule 0 of a submodule blocks.
void add_at_path(Module& root, const std::string& path, const std::shared_ptr<Module>& module) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos) {
    root.register_module(path, module);
    return;
  }
  const std::string head = path.substr(0, dot);
  const auto children = root.named_children();
  const std::shared_ptr<Module> child =
      children.contains(head) ? children[head] : root.register_module(head, std::make_shared<Module>(head));
  add_at_path(*child, path.substr(dot + 1), module);
}

StageBlocks construct(const std::vector<PipelineBlock>& blocks) {
  const auto stage = std::make_shared<Stage>(blocks);
  StageBlocks result{.root = stage, .modules = {}, .ties = {}};
  for (const PipelineBlock& block : blocks) {
    result.modules.push_back(block.make());
    FSDP_CHECK(result.modules.back() != nullptr, "Pipeline: make() of block {} returned null, expected a module.",
               block.name);
  }
  check_untied(blocks, result.modules);
  result.ties = find_ties(blocks, result.modules);
  stage->set_ties(result.ties);
  const torch::NoGradGuard no_grad;
  for (const Tie& tie : result.ties) {
    const torch::Tensor source = tensor_of(tie.copies[tie.source], result.modules);
    for (size_t i = 0; i < tie.copies.size(); ++i) {
      if (i != tie.source) tensor_of(tie.copies[i], result.modules).copy_(source);
    }
  }
  return result;
}

}  // namespace

StageBlocks make_blocks(const std::vector<PipelineBlock>& blocks, const StageLayout& layout, int rank,
                        torch::Device device) {
  const bool stays_deferred = interpose::RecordedScope::current() != nullptr;
  StageBlocks result = deferred_init([&] { return construct(blocks); });
  for (int i = 0; i < std::ssize(blocks); ++i) {
    if (layout.rank_of(layout.stage_of(i)) == rank) {
      add_at_path(*result.root, blocks[i].name, result.modules[i]);
    } else {
      result.modules[i] = nullptr;
    }
  }
  if (!stays_deferred) materialize(*result.root);
  if (!device.is_cpu()) result.root->to(device);
  return result;
}

}  // namespace fsdp::pipeline
