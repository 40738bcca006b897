// The texts that lie beside a rank's state in memory that outlives it: where each tensor is, and what else belongs to
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/contents.h"
#include "memory/held_memory.h"

namespace fsdp::checkpoint {

// Changes only where a tensor is made or goes.
struct HeldPlaces {
  struct Piece {
    std::string name;  // KIND.PARAMETER
    std::string dtype;
    int64_t numel = 0;
    memory::HeldPlace place;
  };
  std::vector<Piece> pieces;         // that are not empty
  std::vector<std::string> scalars;  // KIND.PARAMETER
};

// Changes in each step.
struct HeldNumbers {
  std::vector<double> scalars;  // in the order of the names
  std::map<std::string, std::string> notes;
  std::map<std::string, std::vector<uint8_t>> buffers;     // bytes, on rank 0
  std::map<std::string, std::vector<uint8_t>> generators;  // their states
};

std::string encode(const HeldPlaces& places);
std::string encode(const HeldNumbers& numbers);
// Only for texts of this program.
HeldPlaces decode_places(const std::string& text);
HeldNumbers decode_numbers(const std::string& text);

}  // namespace fsdp::checkpoint
