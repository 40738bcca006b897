// The manifest of a checkpoint, joined from what each rank of the world contributes.
//
// A contribution is a manifest without files: the parameters of which the rank's file has a part, and the buffers in
// that file. The numbers of files in it have no meaning. A rank may describe parameters that it has no part of: the
// first rank of a model does, so that the joined manifest has the model's order.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace fsdp::checkpoint {

struct Contribution {
  int rank = 0;  // of the world
  Manifest manifest = {};
};

// `all`: of the ranks that wrote `files`, in the same order. Step, notes and generators are those of the first. The
// rank with a parameter's first elements gives its dtypes and numbers: others may have none, where they have no
// elements. Equal parts of several ranks are one. Throws Error where ranks differ, or parts do not make up a parameter.
Manifest joined(std::vector<Contribution> all, const std::vector<WrittenFile>& files, int world_size);

// The parameters and buffers of all, each once, without parts: as the first that has it describes it. Throws Error
// where ranks differ in a shape.
Manifest described(const std::vector<Contribution>& all);

// A contribution's parameters and buffers, from rank to rank.
std::string encode(const Manifest& contribution);
// Only for texts of this program.
Manifest decode_contribution(const std::string& text);

}  // namespace fsdp::checkpoint
