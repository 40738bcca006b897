// Generators of random numbers in a checkpoint: the states of all ranks, in the first file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "collectives/group.h"
#include "fsdp/checkpoint.h"

namespace fsdp::checkpoint {

inline constexpr const char* kGenerator = "generator.";  // before the name of a generator

using Generators = std::map<std::string, at::Generator>;

// This rank's states, by name: bytes, and copies.
NamedTensors states_of(const Generators& generators);
std::vector<Manifest::Generator> described(const NamedTensors& states);

// On rank 0 the states of all ranks, [ranks, bytes] each, as the file has them; elsewhere none. A collective. Throws
// Error on every rank where their names or sizes differ.
NamedTensors gather_states(collectives::Group& group, const NamedTensors& own);

// Throws Error for bytes that are no state of such a generator. Changes nothing.
void check_state(const at::Generator& generator, const std::string& name, const torch::Tensor& state);

// As many ranks as have saved go on with their own states. On any other number each is seeded anew, by `state`, rank
// 0's, and its own number: other numbers than those of the job that saved, and the same each time.
void set_state(at::Generator generator, const torch::Tensor& state, int rank, bool is_own);

}  // namespace fsdp::checkpoint
