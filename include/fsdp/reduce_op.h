// How the collectives of a World combine the tensors of the ranks.
#pragma once

namespace fsdp {

// The order is that of the ranks, so every rank has the same bits. 16-bit floating types are added in fp32 and rounded
// once.
enum class ReduceOp {
  Sum,   // of bools: or
  Mean,  // the sum divided by the number of ranks; not of integers and bools
  Max,   // element by element; NaN if one of them is. Not of complex numbers
  Min,   // the same
};

}  // namespace fsdp
