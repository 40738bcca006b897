#include "pipeline/tied_gradients.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "engine/model.h"
#include "engine/value_hash.h"
#include "pipeline/step_facts.h"
#include "pipeline/tags.h"
#include "pipeline/tied_shards.h"

namespace fsdp::pipeline {

namespace {

torch::Tensor whole_gradient(const torch::Tensor& parameter) {
  auto model = engine::Model::of(parameter);
  return model ? ShardedGradient(std::move(model), parameter).whole() : parameter.grad();
}

void write_gradient(torch::Tensor& parameter, const torch::Tensor& whole) {
  if (auto model = engine::Model::of(parameter)) {
    ShardedGradient(std::move(model), parameter).write(whole);
  } else {
    // A copy: clipping multiplies each parameter's gradient in place.
    parameter.mutable_grad() = whole.defined() ? whole.clone() : whole;
  }
}

// In fp32 if the stage is sharded.
torch::Tensor whole_values(const torch::Tensor& parameter) {
  auto model = engine::Model::of(parameter);
  return model ? values_of(*model, parameter) : parameter;
}

// Before hooks of the user, which see the sum when it arrives. A frozen parameter may be trained later.
void watch(torch::Tensor& parameter, const std::shared_ptr<torch::Tensor>& sum) {
  if (!torch::autograd::isDifferentiableType(parameter.scalar_type())) return;
  const bool is_trained = parameter.requires_grad();
  parameter.requires_grad_();
  parameter.register_hook([sum](const torch::Tensor& gradient) { *sum = gradient; });
  parameter.requires_grad_(is_trained);
}

}  // namespace

TiedGradients::TiedGradients(const StageBlocks& blocks, const StageLayout& layout, int rank, Links& links)
    : blocks_(blocks), layout_(layout), rank_(rank), links_(links) {
  FSDP_CHECK(std::ssize(blocks.ties) <= kMostTies, "Pipeline: found {} tied parameters, expected at most {}.",
             blocks.ties.size(), kMostTies);
  for (int tie = 0; tie < std::ssize(blocks.ties); ++tie) {
    for (size_t copy = 0; copy < blocks.ties[tie].copies.size(); ++copy) {
      if (rank_of(tie, copy) != rank) continue;
      End end{tie, copy, tensor_of(blocks.ties[tie].copies[copy], blocks.modules)};
      watch(end.parameter, end.sum);
      ends_.push_back(std::move(end));
    }
  }
}

int TiedGradients::rank_of(int tie, size_t copy) const {
  return layout_.rank_of(layout_.stage_of(blocks_.ties[tie].copies[copy].block));
}

bool TiedGradients::separates(int first, int block) const {
  for (const Tie& tie : blocks_.ties) {
    bool has_earlier = false;
    for (const Tie::Copy& copy : tie.copies) {
      if (copy.block == block && has_earlier) return true;
      has_earlier |= first <= copy.block && copy.block < block;
    }
  }
  return false;
}

// The sum comes from the next copy: from this rank, or by a message that its rank has sent before it sent the gradients
// that this backward begins with.
void TiedGradients::add_roots(int first, int last, int micro_batch, Tensors& roots, Tensors& gradients) {
  for (End& end : ends_) {
    *end.sum = torch::Tensor();
    const int block = block_of(end);
    if (block < first || block > last || !end.parameter.requires_grad()) continue;
    const size_t next = end.copy + 1;
    if (next == tie_of(end).copies.size()) continue;
    torch::Tensor sum;
    if (const int peer = rank_of(end.tie, next); peer == rank_) {
      sum = std::move(local_.extract({end.tie, end.copy, micro_batch}).mapped());
    } else {
      sum = links_.receive(peer, tie_tag(end.tie)).take().at(0);
    }
    if (!sum.defined()) continue;
    *end.sum = sum;  // if the block has no gradient of its own, and no backward runs
    roots.push_back(end.parameter);
    gradients.push_back(sum);
  }
}

Tensors TiedGradients::trained_within(int first, int last) const {
  Tensors parameters;
  for (const End& end : ends_) {
    const int block = block_of(end);
    if (first <= block && block <= last && end.parameter.requires_grad()) parameters.push_back(end.parameter);
  }
  return parameters;
}

void TiedGradients::found(const torch::Tensor& parameter, const torch::Tensor& sum) {
  for (End& end : ends_) {
    if (end.parameter.is_same(parameter)) *end.sum = sum;
  }
}

void TiedGradients::check_alike(World& axis, const std::vector<PipelineBlock>& blocks) const {
  if (blocks_.ties.empty()) return;
  constexpr int64_t kTrained = 1, kFrozen = 2;
  std::vector<int64_t> own(blocks_.ties.size());
  for (const End& end : ends_) own[end.tie] |= end.parameter.requires_grad() ? kTrained : kFrozen;
  const Tensors all = axis.all_gather(torch::tensor(own, torch::kInt64));
  for (size_t tie = 0; tie < own.size(); ++tie) {
    const auto first_rank_with = [&](int64_t requirement) {
      int rank = 0;
      while (rank < axis.size() && (all[rank].const_data_ptr<int64_t>()[tie] & requirement) == 0) ++rank;
      return rank;
    };
    const int trained = first_rank_with(kTrained), frozen = first_rank_with(kFrozen);
    if (trained == axis.size() || frozen == axis.size()) continue;
    std::vector<std::string> names;
    for (const Tie::Copy& copy : blocks_.ties[tie].copies)
      names.push_back(blocks[copy.block].name + "." + copy.parameter);
    throw_error(fmt::format(
        "{}Pipeline: {} are copies of one parameter, and require gradients on rank {} and not on rank {}. Call "
        "requires_grad_ alike on all of them.",
        message_prefix(), fmt::join(names, " and "), name_of_rank(axis, trained), name_of_rank(axis, frozen)));
  }
}

void TiedGradients::check_equal_values(World& axis, const std::vector<PipelineBlock>& blocks) const {
  if (blocks_.ties.empty()) return;
  // By tie and copy; 0 on other ranks.
  std::vector<int64_t> own;
  std::vector<size_t> firsts;
  for (const Tie& tie : blocks_.ties) {
    firsts.push_back(own.size());
    own.resize(own.size() + tie.copies.size());
  }
  for (const End& end : ends_) own[firsts[end.tie] + end.copy] = engine::hash_of_values(whole_values(end.parameter));
  torch::Tensor all = torch::tensor(own, torch::kInt64);
  axis.all_reduce_(all);
  for (size_t tie = 0; tie < firsts.size(); ++tie) {
    const auto& copies = blocks_.ties[tie].copies;
    const int64_t* hashes = all.const_data_ptr<int64_t>() + firsts[tie];
    for (size_t copy = 1; copy < copies.size(); ++copy) {
      FSDP_CHECK(hashes[copy] == hashes[0],
                 "Pipeline: {}.{} and {}.{} are copies of one parameter, and have other values. Call "
                 "torch::manual_seed with one seed on all ranks before the construction, and write both copies alike.",
                 blocks[copies[0].block].name, copies[0].parameter, blocks[copies[copy].block].name,
                 copies[copy].parameter);
    }
  }
}

void TiedGradients::pass_on(int first, int last, int micro_batch) {
  for (End& end : ends_) {
    const int block = block_of(end);
    const torch::Tensor sum = std::exchange(*end.sum, {});
    if (block < first || block > last || !end.parameter.requires_grad() || end.copy == 0) continue;
    if (const int peer = rank_of(end.tie, end.copy - 1); peer == rank_) {
      local_[{end.tie, end.copy - 1, micro_batch}] = sum;
    } else {
      links_.send({sum}, peer, tie_tag(end.tie));
    }
  }
}

void TiedGradients::publish() {
  std::map<int, torch::Tensor> here;  // whole gradients of this rank's homes, by tie
  for (const End& end : ends_) {
    if (!end.parameter.requires_grad() || end.copy != 0) continue;
    const torch::Tensor& gradient = here[end.tie] = whole_gradient(end.parameter);
    for (size_t copy = 1; copy < tie_of(end).copies.size(); ++copy) {
      if (const int peer = rank_of(end.tie, copy); peer != rank_) links_.send({gradient}, peer, tie_tag(end.tie));
    }
  }
  for (End& end : ends_) {
    if (!end.parameter.requires_grad() || end.copy == 0) continue;
    const int home = rank_of(end.tie, 0);
    write_gradient(end.parameter,
                   home == rank_ ? here.at(end.tie) : links_.receive(home, tie_tag(end.tie)).take().at(0));
  }
}

bool TiedGradients::is_copy(const torch::Tensor& parameter) const {
  return std::ranges::any_of(ends_, [&](const End& end) { return end.copy != 0 && end.parameter.is_same(parameter); });
}

}  // namespace fsdp::pipeline
