#include "pipeline/ties.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"

namespace fsdp::pipeline {

namespace {

using Name = std::pair<int, std::string>;  // of a parameter: its block and its name there

std::string full_name(const std::vector<PipelineBlock>& blocks, const Name& name) {
  return fmt::format("{}.{}", blocks[name.first].name, name.second);
}

void check_exists(const std::vector<PipelineBlock>& blocks, const Modules& modules, const Name& name,
                  const std::string& where) {
  const auto parameters = modules[name.first]->named_parameters();
  FSDP_CHECK(parameters.contains(name.second),
             "Pipeline: {} names the parameter {} of block {}, expected one of its parameters: {}.", where, name.second,
             blocks[name.first].name, fmt::join(parameters.keys(), ", "));
}

// "blocks.0.norm.weight": the block is the longest one whose name begins the text.
Name parse(const std::vector<PipelineBlock>& blocks, const std::string& text, const std::string& where) {
  int found = -1;
  for (int i = 0; i < std::ssize(blocks); ++i) {
    const std::string& name = blocks[i].name;
    if (text.starts_with(name + ".") && (found < 0 || name.size() > blocks[found].name.size())) found = i;
  }
  FSDP_CHECK(found >= 0, "Pipeline: {} names {:?}, expected \"block.parameter\" with the name of a block.", where,
             text);
  return {found, text.substr(blocks[found].name.size() + 1)};
}

std::map<Name, Name> links_of(const std::vector<PipelineBlock>& blocks, const Modules& modules) {
  std::map<Name, Name> links;
  for (int i = 0; i < std::ssize(blocks); ++i) {
    for (const auto& [own, other] : blocks[i].shares) {
      const std::string where = fmt::format("shares of block {}", blocks[i].name);
      const Name target = parse(blocks, other, where);
      check_exists(blocks, modules, {i, own}, where);
      check_exists(blocks, modules, target, where);
      links[{i, own}] = target;
    }
  }
  return links;
}

Name source_of(const std::vector<PipelineBlock>& blocks, const std::map<Name, Name>& links, const Name& start) {
  Name name = start;
  for (size_t hops = 0; links.contains(name); ++hops) {
    FSDP_CHECK(hops <= links.size(),
               "Pipeline: the parameter {} is tied to itself. Leave one of the blocks in its "
               "circle without an entry in shares.",
               full_name(blocks, start));
    name = links.at(name);
  }
  return name;
}

void check_equal_form(const std::vector<PipelineBlock>& blocks, const Modules& modules, const Tie::Copy& source,
                      const Tie::Copy& copy) {
  const torch::Tensor expected = tensor_of(source, modules), found = tensor_of(copy, modules);
  FSDP_CHECK(found.sizes() == expected.sizes() && found.scalar_type() == expected.scalar_type(),
             "Pipeline: the parameter {} is {} of shape [{}], and {}, to which it is tied, is {} of shape [{}]. Make "
             "them alike.",
             full_name(blocks, {copy.block, copy.parameter}), toString(found.scalar_type()),
             fmt::join(found.sizes(), ", "), full_name(blocks, {source.block, source.parameter}),
             toString(expected.scalar_type()), fmt::join(expected.sizes(), ", "));
}

}  // namespace

torch::Tensor tensor_of(const Tie::Copy& copy, const Modules& modules) {
  return modules[copy.block]->named_parameters()[copy.parameter];
}

std::vector<Tie> find_ties(const std::vector<PipelineBlock>& blocks, const Modules& modules) {
  const std::map<Name, Name> links = links_of(blocks, modules);
  std::map<Name, std::vector<Name>> groups;  // by source
  for (const auto& [own, target] : links) groups[source_of(blocks, links, own)].push_back(own);
  std::vector<Tie> ties;
  for (auto& [source, names] : groups) {
    names.push_back(source);
    std::ranges::sort(names);
    Tie tie;
    for (const auto& [block, parameter] : names) tie.copies.push_back({block, parameter});
    tie.source = std::ranges::find(names, source) - names.begin();
    for (const Tie::Copy& copy : tie.copies) check_equal_form(blocks, modules, tie.copies[tie.source], copy);
    for (size_t i = 1; i < tie.copies.size(); ++i) {
      FSDP_CHECK(tie.copies[i - 1].block != tie.copies[i].block,
                 "Pipeline: {} and {} are tied within block {}. Make them one parameter in the module itself.",
                 tie.copies[i - 1].parameter, tie.copies[i].parameter, blocks[tie.copies[i].block].name);
    }
    ties.push_back(std::move(tie));
  }
  return ties;
}

void check_untied(const std::vector<PipelineBlock>& blocks, const Modules& modules) {
  std::unordered_map<const at::TensorImpl*, Name> owners;
  const auto check = [&](const Name& name, const torch::Tensor& tensor, const char* remedy) {
    if (!tensor.defined()) return;
    const auto [owner, is_new] = owners.try_emplace(tensor.unsafeGetTensorImpl(), name);
    FSDP_CHECK(is_new || owner->second.first == name.first,
               "Pipeline: {} and {} are one tensor, which two ranks cannot hold. Let each block make a {}.",
               full_name(blocks, owner->second), full_name(blocks, name), remedy);
  };
  for (int i = 0; i < std::ssize(modules); ++i) {
    for (const auto& parameter : modules[i]->named_parameters())
      check({i, parameter.key()}, parameter.value(), "parameter of its own, and tie them by PipelineBlock::shares");
    for (const auto& buffer : modules[i]->named_buffers())
      check({i, buffer.key()}, buffer.value(), "buffer of its own: a rank would not see what another writes");
  }
}

}  // namespace fsdp::pipeline
