#include <exception>
#include <utility>
#include <vector>

#include "checkpoint/background_saves.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/write_checkpoint.h"
#include "engine/model.h"

namespace fsdp {

namespace {

using checkpoint::SaveTarget;
using checkpoint::SaveUnderWay;
using checkpoint::TakenState;

// Tensors that may change at any moment, and those on a GPU, are copied in the call.
bool is_copied_at_once(const Checkpoint& checkpoint, const std::string& name, const torch::Tensor& tensor) {
  const bool is_of_unknown_optimizer = name.starts_with(std::string(checkpoint::kOptimizer) + ".") &&
                                       dynamic_cast<const PieceOptimizer*>(checkpoint.optimizer) == nullptr;
  return name.starts_with(checkpoint::kBuffer) || is_of_unknown_optimizer || !tensor.is_cpu() ||
         !tensor.is_contiguous();
}

torch::Tensor copy_of(const torch::Tensor& tensor) {
  return tensor.to(torch::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true,
                   c10::MemoryFormat::Contiguous);
}

TakenState take(const Checkpoint& checkpoint) try {
  const torch::NoGradGuard no_grad;
  TakenState taken{.snapshot = checkpoint::snapshot_of(checkpoint)};
  for (auto& [name, tensor] : taken.snapshot.tensors) {
    taken.is_own.push_back(is_copied_at_once(checkpoint, name, tensor));
    if (taken.is_own.back()) tensor = copy_of(tensor);
  }
  return taken;
} catch (...) {
  return {.failure = std::current_exception()};
}

}  // namespace

void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  const SaveTarget target = checkpoint::save_target("save_checkpoint", directory, checkpoint);
  engine::Model& model = checkpoint.model->model();
  checkpoint::finish_background_saves(model);
  checkpoint::CheckpointRanks(model, checkpoint.mesh).run("save_checkpoint", [&](collectives::Group& group) {
    checkpoint::write_checkpoint(group, target, [&] { return checkpoint::snapshot_of(checkpoint); });
  });
}

PendingCheckpoint save_checkpoint_async(const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  const auto begin = SaveUnderWay::Clock::now();
  const SaveTarget target = checkpoint::save_target("save_checkpoint_async", directory, checkpoint);
  engine::Model& model = checkpoint.model->model();
  model.publish_pieces();  // what operators write to pieces from now on is a change that waits
  checkpoint::BackgroundSaves& saves =
      checkpoint::background_saves_of(model, checkpoint::CheckpointRanks(model, checkpoint.mesh));
  saves.finish();
  TakenState taken = take(checkpoint);
  return PendingCheckpoint(saves.start(target, std::move(taken), begin, model.begin_reading()));
}

PendingCheckpoint::PendingCheckpoint(std::shared_ptr<SaveUnderWay> save) : save_(std::move(save)) {}

void PendingCheckpoint::wait() const {
  if (save_.get()) save_->wait();
}

bool PendingCheckpoint::done() const { return !save_.get() || save_->is_over(); }

double PendingCheckpoint::seconds_paused() const { return save_.get() ? save_->seconds_paused() : 0; }

double PendingCheckpoint::seconds() const { return save_.get() ? save_->seconds() : 0; }

}  // namespace fsdp
