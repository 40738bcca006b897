#include "plan/tensor_traffic.h"

#include "base/error.h"

namespace fsdp::plan {

Exchanges& Exchanges::operator+=(const Exchanges& other) {
  sums += other.sums;
  slices += other.slices;
  wholes += other.wholes;
  return *this;
}

Exchanges PassExchanges::sum() const {
  Exchanges both = forward;
  both += backward;
  return both;
}

// A row layer adds up its output, and a column layer the gradient of its input. Where these are slices, the column
// layer gathers its input, again for the gradient of its weight, and the row layer the gradient of its output.
PassExchanges layer_exchanges(int64_t columns, int64_t rows, const DividedPasses& passes) {
  const auto of_columns = static_cast<double>(columns), of_rows = static_cast<double>(rows);
  // A second forward ends before its last product.
  const double rows_again = passes.again ? of_rows - 1 : 0, columns_again = passes.again ? of_columns : 0;
  if (!passes.slices) return {.forward = {.sums = of_rows}, .backward = {.sums = rows_again + of_columns}};
  return {.forward = {.slices = of_rows, .wholes = of_columns},
          .backward = {.slices = rows_again + of_columns, .wholes = columns_again + of_columns + of_rows}};
}

// The table adds up its rows.
PassExchanges lookup_exchanges(const DividedPasses& passes) {
  if (!passes.slices) return {.forward = {.sums = 1}};
  return {.forward = {.slices = 1}, .backward = {.wholes = 1}};
}

// The head adds up the gradient of its input.
PassExchanges head_exchanges(const DividedPasses& passes) {
  return {.forward = {.wholes = passes.slices ? 1.0 : 0.0}, .backward = {.sums = 1}};
}

// Each rank sends its slice of each of its parts to the rank that adds them up.
double exchanged_bytes(const Exchanges& exchanges, const DividedTensors& tensors) {
  FSDP_CHECK(tensors.ranks >= 1 && tensors.parts >= 1 && tensors.bytes >= 0,
             "plan: found {} tensor ranks with {} parts each and tensors of {} bytes, expected at least 1 rank and 1 "
             "part.",
             tensors.ranks, tensors.parts, tensors.bytes);
  const auto ranks = static_cast<double>(tensors.ranks), parts = static_cast<double>(tensors.parts);
  return tensors.bytes * (ranks - 1) / ranks *
         (exchanges.sums * (parts + 1) + exchanges.slices * parts + exchanges.wholes);
}

}  // namespace fsdp::plan
