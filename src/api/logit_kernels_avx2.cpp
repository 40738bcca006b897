// Compiled for AVX2.
#include "api/logit_kernels_body.h"

namespace fsdp {

template <typename Element>
const LogitKernels<Element>& logit_kernels_avx2();

template <typename Element>
const LogitKernels<Element>& logit_kernels_avx2() {
  return kKernels<Element>;
}

template const LogitKernels<float>& logit_kernels_avx2<float>();
template const LogitKernels<uint16_t>& logit_kernels_avx2<uint16_t>();

}  // namespace fsdp
