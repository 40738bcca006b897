// Mixed precision as the engine knows it: a dtype for each unit.
#pragma once

#include <vector>

#include "engine/model.h"
#include "fsdp/options.h"

namespace fsdp {

// Dtypes that full parameters, gradients on the wire and buffers can have.
bool is_supported(torch::ScalarType dtype);
// Throws Error for a dtype that is not.
void check_precision(const MixedPrecision& precision);

// Modules with running statistics are kept in their own dtype, as PyTorch's FSDP does with batch norms, unless the
// statistics get the parameters' dtype too: their kernels refuse 16-bit weights beside fp32 statistics. Both functions
// throw Error for a pattern that matches nothing.

// Gives the buffers of the module their dtype.
void convert_buffers(const std::vector<NamedUnit>& units, const MixedPrecision& precision);
// A unit's full parameters have one dtype: where some are kept in another, they become a unit of their own.
std::vector<engine::UnitSpec> divide_by_dtype(std::vector<NamedUnit> units, const MixedPrecision& precision);

}  // namespace fsdp
