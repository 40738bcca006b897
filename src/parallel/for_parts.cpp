#include "parallel/for_parts.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <vector>

namespace fsdp::parallel {

void for_parts(int64_t count, int64_t least, c10::function_ref<void(int64_t, int64_t)> body) {
  const int64_t parts = std::min<int64_t>(at::get_num_threads(), count / least);
  if (parts < 2) {
    if (count > 0) body(0, count);
    return;
  }
  std::vector<char> places(static_cast<size_t>(parts));  // one for each part: its address is its number
  const at::Tensor visited = at::from_blob(places.data(), {parts}, at::kChar);
  at::TensorIterator iterator = at::TensorIteratorConfig()
                                    .set_check_mem_overlap(false)
                                    .check_all_same_dtype(false)
                                    .add_output(visited)
                                    .resize_outputs(false)
                                    .build();
  const auto begin_of = [&](int64_t part) { return count / parts * part + std::min(part, count % parts); };
  iterator.for_each(
      [&](char** place, const int64_t*, int64_t visits, int64_t) {  // a second dimension has one place
        const int64_t first = *place - places.data();
        for (int64_t part = first; part < first + visits; ++part) body(begin_of(part), begin_of(part + 1));
      },
      /*grain_size=*/1);
}

}  // namespace fsdp::parallel
