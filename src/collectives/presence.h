// What a rank says of each parameter of a unit whose gradients it offers for a reduction, as a byte.
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
  kLeftOut = 2,  // nobody wants one: the parameter is frozen
};

// Throws Error unless the two ranks leave out the same parameters.
void check_same_left_out(std::span<const uint8_t> own, std::span<const uint8_t> theirs, int rank,
                         const std::string& unit);

}  // namespace fsdp::collectives
