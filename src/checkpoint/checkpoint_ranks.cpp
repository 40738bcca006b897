#include "checkpoint/checkpoint_ranks.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/joined_manifest.h"
#include "world/state.h"

namespace fsdp::checkpoint {

CheckpointRanks::CheckpointRanks(engine::Model& model, const std::optional<Mesh>& mesh) : model_(&model) {
  if (mesh) world_ = mesh->world();
}

collectives::Group& CheckpointRanks::group() const { return world_ ? world_->state()->group() : model_->group(); }

int CheckpointRanks::leader() const {
  if (!world_) return 0;
  const std::vector<int>& all = world_->state()->world_ranks();
  const std::vector<int>& own = model_->whole().ranks;
  for (const int rank : own) {
    FSDP_CHECK(std::ranges::find(all, rank) != all.end(),
               "Checkpoint::mesh: found a mesh of the ranks {}, expected one that has the ranks {} of the model. Pass "
               "the mesh that the model was sharded along an axis of.",
               fmt::join(all, ", "), fmt::join(own, ", "));
  }
  return static_cast<int>(std::ranges::find(all, own.at(0)) - all.begin());
}

void CheckpointRanks::run(const std::string& call, const std::function<void(collectives::Group&)>& body) const {
  if (!world_) return body(group());
  const world::State::Call told(*world_->state(), "calls " + call);
  body(group());
}

void CheckpointRanks::all_succeed(const std::string& what, const std::function<void()>& body) const {
  run(what.substr(0, what.find(' ')), [&](collectives::Group& group) { checkpoint::all_succeed(group, what, body); });
}

std::unique_ptr<collectives::Group> CheckpointRanks::new_host_group() const {
  if (!world_) return model_->new_host_group();
  const world::State::Call told(*world_->state(), "calls save_checkpoint_async");
  return world_->state()->new_host_group();
}

const void* CheckpointRanks::identity() const {
  if (!world_) return nullptr;
  return world_->state().get();
}

std::vector<std::string> all_gather_texts(collectives::Group& group, const std::string& text) {
  std::vector<int64_t> bytes;
  for (const torch::Tensor& one : group.all_gather(torch::tensor({std::ssize(text)}, torch::kLong))) {
    bytes.push_back(one.item<int64_t>());
  }
  std::vector<std::string> texts(bytes.size());
  const int64_t most = std::ranges::max(bytes);
  if (most == 0) return texts;
  torch::Tensor message = torch::zeros({most}, torch::kUInt8);
  std::ranges::copy(text, static_cast<char*>(message.mutable_data_ptr()));
  const std::vector<torch::Tensor> all = group.all_gather(message);
  for (size_t i = 0; i < all.size(); ++i) {
    texts[i].assign(static_cast<const char*>(all[i].const_data_ptr()), static_cast<size_t>(bytes[i]));
  }
  return texts;
}

Manifest describe_whole(collectives::Group& group, const Manifest& own, bool is_leader) {
  const std::vector<std::string> texts = all_gather_texts(group, is_leader ? encode(own) : "");
  std::vector<Contribution> all;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) all.push_back({static_cast<int>(rank), decode_contribution(texts[rank])});
  }
  Manifest whole = described(all);
  whole.generators = own.generators;
  return whole;
}

}  // namespace fsdp::checkpoint
