// The dispatch key that sharded parameters carry, and the one of kept results.
//
// LibTorch reserves DeferredInit for code outside of its tree: no kernels are registered for it, it comes before
// autograd, and views of a tensor inherit it while results of computations do not. A fallback on it therefore sees
// exactly the operators that take a sharded parameter.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace fsdp::interpose {

inline constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;

// The one by which results of operators are kept (kept_results.h). It lies below autograd and above the devices'
// kernels, and is included where results are kept or given.
inline constexpr c10::DispatchKey kResultsKey = c10::DispatchKey::CustomRNGKeyId;

}  // namespace fsdp::interpose
