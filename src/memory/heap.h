// Which ranges of an address space are taken: first fit, in pages. Pure arithmetic; not for concurrent use.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "memory/pages.h"

namespace fsdp::memory {

class Heap {
 public:
  // Hands out what lies between the two, both multiples of a page.
  Heap(size_t begin, size_t end);

  // The offset of a range of at least `bytes`, which starts at a page, or at a huge page where it is as long as one;
  // none where no gap is long enough.
  std::optional<size_t> take(size_t bytes);
  // Takes back what `take` gave, and returns its length.
  size_t give_back(size_t offset);

 private:
  std::map<size_t, size_t> gaps_;   // offset to length
  std::map<size_t, size_t> taken_;  // the same
};

}  // namespace fsdp::memory
