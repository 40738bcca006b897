// The loss scale of an fp16 run, kept beside the checkpoint that it belongs to.
#pragma once

#include <fsdp/optim.h>

#include <string>

namespace trainer {

// Writes it into the folder of a complete checkpoint. Throws fsdp::Error when that fails.
void save_loss_scale(const std::string& checkpoint, const fsdp::GradScaler& scaler);

// Restores it. A checkpoint without one, of a run in another dtype, leaves the scale that it finds: what a wrong scale
// costs is skipped steps. Throws fsdp::Error for a file that is damaged.
void load_loss_scale(const std::string& checkpoint, fsdp::GradScaler& scaler);

}  // namespace trainer
