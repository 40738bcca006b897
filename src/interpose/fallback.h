// The kernels on our key: one that sees every operator which takes a sharded parameter, and quicker ones, without
// boxing, for those that models call most.
#pragma once

namespace fsdp::interpose {

// Brings the kernels into a program that links this library statically; called when a parameter is attached.
void ensure_fallback();

}  // namespace fsdp::interpose
