// The kernels on our key: the fallback, for every operator with a sharded parameter, and quicker ones, without boxing,
// for the most frequent operators (frequent_operators.h).
#pragma once

namespace fsdp::interpose {

// Brings the kernels into a program that links this library statically; called when a parameter is attached.
void ensure_fallback();

}  // namespace fsdp::interpose
