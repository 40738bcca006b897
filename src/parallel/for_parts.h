// Loops on the threads that LibTorch computes with, as many as torch::set_num_threads says.
//
// at::parallel_for is a template that has one thread wherever it is compiled without OpenMP. Compilers bring an OpenMP
// of their own (Clang's is another than LibTorch's), and two in a process take the cores from each other. So LibTorch
// itself runs these loops, in the only OpenMP that there is, and nothing has to be compiled or linked for that.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace fsdp::parallel {

// Calls `body(begin, end)` for parts that are 0 to `count` together: at most one for each thread, at the same time, and
// of at least `least` (1 or more) where there is more than one. Within such a loop, LibTorch's own too, one thread
// calls it for all of them. `body` computes without tensors. If it throws, what one of them threw comes when all have
// ended.
void for_parts(int64_t count, int64_t least, c10::function_ref<void(int64_t begin, int64_t end)> body);

}  // namespace fsdp::parallel
