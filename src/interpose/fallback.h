// The kernels on our key: the fallback, which sees every operator that takes a sharded parameter, and quicker ones,
// without boxing, for those that models call most (frequent_operators.h).
#pragma once

namespace fsdp::interpose {

// Brings the kernels into a program that links this library statically; called when a parameter is attached.
void ensure_fallback();

}  // namespace fsdp::interpose
