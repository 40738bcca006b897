// Where bytes lie that are put away for a while and wanted again in the opposite order: activations, between a forward
// and its backward. Backing (backing.h) is for what lives as long as a model.
//
// Any thread.
#pragma once

#include <torch/types.h>

#include <memory>

#include "memory/offload_folder.h"

namespace fsdp::memory {

// Bytes that a store has, until this is destroyed.
class StoredBytes {
 public:
  virtual ~StoredBytes() = default;
  // [bytes] uint8, on the device that they came from, which keeps them as long as it or its storage lives. Several may
  // share memory: they are not to be written.
  virtual torch::Tensor get() = 0;
};

class ByteStore {
 public:
  virtual ~ByteStore() = default;
  // Stores `bytes`, [n] uint8 with n > 0, which may be freed as soon as this returns. Throws Error where there is no
  // room.
  virtual std::shared_ptr<StoredBytes> put(const torch::Tensor& bytes) = 0;
};

// A file in the folder. It grows to the most that it ever had to hold, and no further: room on the disk is taken when
// it is first needed, and used again.
//
// The system writes beside the caller, the oldest bytes first; the last 64 MiB are left alone, as they are wanted first
// and may be gone before they are written. It reads 32 MiB ahead of what is asked for.
std::shared_ptr<ByteStore> file_store(std::shared_ptr<const OffloadFolder> folder);
// The host's memory, pinned if bytes come from another device. Copies in both directions run beside the device's
// computation. The host never waits.
std::shared_ptr<ByteStore> host_store();

}  // namespace fsdp::memory
