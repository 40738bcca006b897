// The nearest orthogonal matrix, roughly: what makes Muon's update of a momentum.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace fsdp::optim {

// Brings the singular values of `matrix`, [rows, columns] fp32, near 1 (about 0.7 to 1.2) and keeps its singular
// vectors: five steps of the quintic Newton-Schulz iteration of Keller Jordan,
// https://kellerjordan.github.io/posts/muon/, computed in `dtype`. Returns [rows, columns] fp32. A zero matrix stays
// zero.
torch::Tensor orthogonalized(const torch::Tensor& matrix, torch::ScalarType dtype);

// The work of that, up to a factor: of the products. `shape` is of a parameter that is a matrix of its first dimension
// by all others.
int64_t newton_schulz_work(c10::IntArrayRef shape);

}  // namespace fsdp::optim
