// Bytes that a rank receives from the other ranks of its tensor axis. Pure.
#pragma once

#include <cstdint>

namespace fsdp::plan {

// Tensors of [batch, length, width] that the passes of blocks exchange for a micro-batch.
struct Exchanges {
  double sums = 0;    // over all parts, on every rank
  double slices = 0;  // a rank's slice of such a sum
  double wholes = 0;  // slices of all ranks

  Exchanges& operator+=(const Exchanges& other);
};

// Those of a block, by its passes.
struct PassExchanges {
  Exchanges forward = {};
  Exchanges backward = {};  // with a second forward, if there is one

  Exchanges sum() const;
};

// How the passes of a block run.
struct DividedPasses {
  bool slices = false;  // activations between divided layers are slices of the sequence
  bool again = false;   // the backward runs the forward a second time
};

// A block with layers that are divided by columns, and as many or others that are divided by rows.
PassExchanges layer_exchanges(int64_t columns, int64_t rows, const DividedPasses& passes);
// Lookups in a divided table.
PassExchanges lookup_exchanges(const DividedPasses& passes);
// A divided head, with the loss. Its input is whole.
PassExchanges head_exchanges(const DividedPasses& passes);

// The tensor axis of a run.
struct DividedTensors {
  int64_t ranks = 1;
  int64_t parts = 1;  // of each layer, on each rank
  double bytes = 0;   // of a whole tensor of [batch, length, width]
};

// The bytes that a rank receives. Throws Error for no ranks or parts.
double exchanged_bytes(const Exchanges& exchanges, const DividedTensors& tensors);

}  // namespace fsdp::plan
