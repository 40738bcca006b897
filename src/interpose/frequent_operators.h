// Kernels on our key for the operators that models call most on parameters. They do the work of the fallback without
// putting every argument into a box and out of it again, which costs more than the touch.
#pragma once

namespace fsdp::interpose {

// Brings the kernels into a program that links this library statically.
void ensure_frequent_operators();

}  // namespace fsdp::interpose
