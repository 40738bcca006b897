#include "api/logit_kernels.h"

#include "api/logit_kernels_body.h"

namespace fsdp {

#ifdef __x86_64__
template <typename Element>
const LogitKernels<Element>& logit_kernels_avx2();  // logit_kernels_avx2.cpp
extern template const LogitKernels<float>& logit_kernels_avx2<float>();
extern template const LogitKernels<uint16_t>& logit_kernels_avx2<uint16_t>();
#endif

template <typename Element>
const LogitKernels<Element>& plain_logit_kernels() {
  return kKernels<Element>;
}

template <typename Element>
const LogitKernels<Element>& logit_kernels() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return logit_kernels_avx2<Element>();
#endif
  return kKernels<Element>;
}

template const LogitKernels<float>& plain_logit_kernels<float>();
template const LogitKernels<uint16_t>& plain_logit_kernels<uint16_t>();
template const LogitKernels<float>& logit_kernels<float>();
template const LogitKernels<uint16_t>& logit_kernels<uint16_t>();

}  // namespace fsdp
