// The parts of a parameter, as JSON in a manifest.
#pragma once

#include <map>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/manifest_member.h"
#include "files/json.h"

namespace fsdp::checkpoint {

files::OrderedJson json_of(const std::vector<Manifest::Part>& parts);

// The parts of the parameter at `member`. `parameter` has its name, shape and strides, `manifest` its files. Throws
// Error naming the part, unless the parts make up the parameter, and those in one file make up that file's tensors.
std::vector<Manifest::Part> parts_in(const Member& member, const Manifest::Parameter& parameter,
                                     const Manifest& manifest);
// The same of a manifest of version 3, which has pairs of a file and a number of elements: ranges of the whole
// parameter, each of which begins where the one before ends.
std::vector<Manifest::Part> parts_of_pieces(const Member& member, const Manifest::Parameter& parameter,
                                            const Manifest& manifest);

// The elements that each file has of the parameter.
std::map<int, int64_t> numel_by_file(const std::vector<Manifest::Part>& parts);

}  // namespace fsdp::checkpoint
