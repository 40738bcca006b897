// The parts of a training run that go into a checkpoint, and their names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/segments.h"
#include "collectives/group.h"
#include "fsdp/checkpoint.h"
#include "layout/placement.h"

namespace fsdp::checkpoint {

inline constexpr const char* kModel = "model";          // the kind of the parameters' own elements
inline constexpr const char* kOptimizer = "optimizer";  // of states: "optimizer.exp_avg"
inline constexpr const char* kBuffer = "buffer.";       // before the name of a buffer

// Tensors of this rank's, which share memory with the model and the optimizer.
struct Contents {
  struct Piece {
    std::string kind;
    size_t parameter;  // its number in the model
    torch::Tensor tensor;
    int64_t numel_each = 1;  // elements of the parameter that have one of the tensor's
    torch::Tensor scales =
        {};  // where the tensor holds codes of Block8: theirs, which are a piece of their own as well
  };
  std::vector<Piece> pieces;                   // 1-D, maybe empty
  std::vector<Piece> scalars;                  // one number each
  std::vector<std::string> names;              // by parameter: in the whole model
  std::vector<std::vector<Segment>> segments;  // by parameter: which elements its pieces have, maybe none
};
// Throws Error for an optimizer of another model.
Contents contents_of(const Checkpoint& checkpoint);

// True if the model has the parameter a second time, as a copy of the one with this number.
bool is_copy(const Contents& contents, size_t parameter);

// The segment of a piece, with its scales. Throws Error where it does not begin at a block of Block8.
Contents::Piece part_of(const Contents::Piece& piece, const Segment& segment);

// A tensor of a rank's file. `parameter` is empty for a buffer.
struct FileTensor {
  std::string parameter = {};
  int64_t numel_each = 1;  // elements of the parameter that have one of the tensor's
};
// The contents of this rank's file: the pieces that are not empty, as KIND.NAME, and on the model's rank 0 the buffers.
// `of` gets one entry for each.
NamedTensors tensors_of_file(const Checkpoint& checkpoint, const Contents& contents, std::vector<FileTensor>& of);

// All but the generators and the files. The parts and the numbers are this rank's.
Manifest manifest_of(const Checkpoint& checkpoint, const Contents& contents);

// Runs `body` on every rank and throws on every rank when it threw on one, naming that one. A collective.
void all_succeed(collectives::Group& group, const std::string& what, const std::function<void()>& body);

}  // namespace fsdp::checkpoint
