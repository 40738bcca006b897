// A sum of doubles that does not depend on the order or the grouping of its terms.
//
// Every term is an integer multiple of the smallest double, so the sum is kept as one long integer, cut into limbs
// (Kulisch's accumulator). Sums of ranks are added limb by limb. Not for concurrent use.
#pragma once

#include <array>
#include <cstdint>

namespace fsdp::optim {

class ExactSum {
 public:
  // 32 bits of the long integer each, with room for the carries of 2^31 terms; the lowest first.
  static constexpr int kLimbs = 70;
  using Limbs = std::array<int64_t, kLimbs>;

  void add(double term);  // not negative; may be infinite or NaN
  void add(const ExactSum& other);
  double value() const;  // rounded once

  // For sending a sum to another rank.
  const Limbs& limbs() const { return limbs_; }
  double special() const { return special_; }  // infinite or NaN where a term was, otherwise 0
  static ExactSum from(const Limbs& limbs, double special);

 private:
  void carry();

  Limbs limbs_{};
  double special_ = 0;
};

}  // namespace fsdp::optim
