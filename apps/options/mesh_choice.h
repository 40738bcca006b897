// The mesh of ranks that the options ask for: data x pipeline x tensor.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// A sentence for each contradiction among the options of a mesh, and for each other option that cannot be with one.
std::vector<std::string> mesh_contradictions(const RunOptions& options);

// A sentence for each axis that does not fit the ranks or the model. `options.ranks` is the number of the job.
std::vector<std::string> mesh_problems(const RunOptions& options);

// "2 x 2 x 2 ranks (data x pipeline x tensor), tensor and pipeline ranks on one host, matrices in 2 parts", for people.
// `places` says where the ranks lie; it may be empty.
std::string mesh_text(const RunOptions& options, const std::string& places);

}  // namespace trainer
