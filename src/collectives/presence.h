// The presence of gradients: a byte per parameter of a unit that a rank offers for a reduction.
//
// Which parameters are left out must be the same on every rank: it decides where the others' gradients lie.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fsdp::collectives {

enum Presence : uint8_t {
  kMissing = 0,  // this rank has no gradient of it
  kPresent = 1,  // it has one
  kLeftOut = 2,  // none is needed: the parameter is frozen
};

// Throws Error unless the two ranks leave out the same parameters. `rank` is the peer, as messages call it.
void check_same_left_out(std::span<const uint8_t> own, std::span<const uint8_t> theirs, int rank,
                         const std::string& unit);

}  // namespace fsdp::collectives
